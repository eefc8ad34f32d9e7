//! cell.
