//! gorilla.
