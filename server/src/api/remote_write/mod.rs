//! Remote write.
