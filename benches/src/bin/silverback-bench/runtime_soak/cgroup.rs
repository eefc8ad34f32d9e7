//! A cgroup with a CPU quota, of version 1 or 2, that is removed again.
use std::{
    fs, io,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

/// CPU time in a period; none: no limit, no cgroup.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quota(Option<(Duration, Duration)>);

impl Quota {
    pub(super) fn period(self) -> Option<Duration> {
        self.0.map(|(_, period)| period)
    }
}

impl FromStr for Quota {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(None));
        }
        let malformed = || format!("not of the form 100/600: {text}");
        let (time, period) = text.split_once('/').ok_or_else(malformed)?;
        let milliseconds = |text: &str| text.parse().map(Duration::from_millis).map_err(|_| malformed());
        Ok(Self(Some((milliseconds(time)?, milliseconds(period)?))))
    }
}

#[derive(Debug, Clone, Copy)]
enum Version {
    V1,
    V2,
}

/// The group; removed when dropped, its threads moved back to the group above.
pub(super) struct QuotaGroup(Option<Group>);

#[derive(Clone)]
struct Group {
    version: Version,
    above: PathBuf,
    path: PathBuf,
}

impl QuotaGroup {
    pub(super) fn create(quota: Quota) -> io::Result<Self> {
        let Some((time, period)) = quota.0 else { return Ok(Self(None)) };
        let (version, above) = if Path::new("/sys/fs/cgroup/cpu/cpu.cfs_period_us").exists() {
            (Version::V1, PathBuf::from("/sys/fs/cgroup/cpu"))
        } else {
            (Version::V2, PathBuf::from("/sys/fs/cgroup"))
        };
        let path = above.join(format!("runtime-soak-{}", std::process::id()));
        if let Version::V2 = version {
            fs::write(above.join("cgroup.subtree_control"), "+cpu")?;
        }
        fs::create_dir(&path)?;
        let group = Self(Some(Group { version, above, path: path.clone() }));
        let (time, period) = (time.as_micros(), period.as_micros());
        match version {
            Version::V1 => {
                fs::write(path.join("cpu.cfs_period_us"), period.to_string())?;
                fs::write(path.join("cpu.cfs_quota_us"), time.to_string())?;
            }
            Version::V2 => fs::write(path.join("cpu.max"), format!("{time} {period}"))?,
        }
        Ok(group)
    }

    pub(super) fn entrance(&self) -> Entrance {
        Entrance(self.0.clone())
    }

    /// What the kernel says about periods and how many of them were throttled.
    pub(super) fn throttling(&self) -> String {
        let Some(group) = &self.0 else { return "no quota".into() };
        let stat = fs::read_to_string(group.path.join("cpu.stat")).unwrap_or_default();
        stat.lines().filter(|line| line.starts_with("nr_")).collect::<Vec<_>>().join(" ")
    }
}

/// The way into the group, for another thread.
pub(super) struct Entrance(Option<Group>);

impl Entrance {
    /// Moves the calling thread, and with it those that it starts; with version 2 the whole process,
    /// which moves threads one by one only where every group above is threaded.
    pub(super) fn enter(&self) -> io::Result<()> {
        match &self.0 {
            None => Ok(()),
            // Zero is who writes.
            Some(Group { version: Version::V1, path, .. }) => fs::write(path.join("tasks"), "0"),
            Some(Group { version: Version::V2, path, .. }) => fs::write(path.join("cgroup.procs"), "0"),
        }
    }
}

impl Drop for QuotaGroup {
    fn drop(&mut self) {
        let Some(group) = &self.0 else { return };
        let moved = fs::write(group.above.join("cgroup.procs"), std::process::id().to_string());
        if let Err(error) = moved.and_then(|()| fs::remove_dir(&group.path)) {
            eprintln!("{} could not be removed: {error}", group.path.display());
        }
    }
}
