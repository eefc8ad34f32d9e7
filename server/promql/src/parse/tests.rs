//! Expressions and errors as Prometheus has them.
