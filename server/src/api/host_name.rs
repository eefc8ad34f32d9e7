//! What the machine, or the pod, is called.
#![expect(clippy::disallowed_methods, reason = "/proc answers from memory")]

/// The host's name; empty where the system doesn't say.
pub(crate) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
