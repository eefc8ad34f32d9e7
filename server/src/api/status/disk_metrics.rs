//! The metric families of the file system that the data directory lies on. One that doesn't tell its room
//! has none: a metric that is missing is seen, a zero is believed.

use silverback_host::disk::room::FileSystemRoom;
use silverback_host::metrics::{Family, Kind};

/// All of them.
pub(crate) fn families(room: Option<FileSystemRoom>) -> Vec<Family> {
    let Some(FileSystemRoom { size_bytes, free_bytes }) = room else { return Vec::new() };
    let of = |name, help, bytes: u64| Family::single(name, Kind::Gauge, help, bytes as f64);
    vec![
        of(
            "silverback_disk_size_bytes",
            "What the file system of the data directory holds, whoever uses it.",
            size_bytes,
        ),
        of("silverback_disk_free_bytes", "What of that the node may still fill.", free_bytes),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_host::metrics::render;

    #[test]
    fn a_file_system_that_tells_nothing_has_no_metrics() {
        assert_eq!(families(None), []);
        let text = render(&families(Some(FileSystemRoom { size_bytes: 300, free_bytes: 20 })));
        assert!(text.contains("\nsilverback_disk_size_bytes 300\n"), "{text}");
        assert!(text.contains("\nsilverback_disk_free_bytes 20\n"), "{text}");
    }
}
