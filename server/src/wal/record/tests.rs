//! Round trips, hostile bytes, and the format as it is written down.
