//! The protocol buffers that Silverback speaks.
