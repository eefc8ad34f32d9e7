//! The Silverback client library.
