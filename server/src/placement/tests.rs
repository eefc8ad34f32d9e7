//! Placement on made-up machines, from the kernel's files to the plan and its picture.
use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use super::picture::Picture;
use super::plan::{Caution, LeftAlone};
use super::synthetic::{Machine, machine};
use super::topology::Barred;
use super::{CpuId, NodeId, PlacementPlan, Topology, TopologyError, numbers, plan};
use crate::config::ShardCount;
use silverback_model::limits::SHARDS_MAX;

const V2: (&str, &str) = ("proc/self/cgroup", "0::/pods/node");

fn fixed(shards: usize) -> ShardCount {
    ShardCount::Fixed(NonZeroUsize::new(shards).unwrap())
}

/// The shards' CPUs by node, and the CPUs left alone by reason, as the kernel would write them.
fn check(machine: &Machine, shards: ShardCount, placed: &str, left: &[(LeftAlone, &str)]) -> PlacementPlan {
    let plan = plan(&machine.topology(), shards);
    assert_eq!(plan.to_string(), placed);
    let reasons: BTreeSet<_> = plan.left.values().copied().collect();
    let found: Vec<_> = reasons.iter().map(|reason| (*reason, left_for(&plan, *reason))).collect();
    let expect: Vec<_> = left.iter().map(|(reason, cpus)| (*reason, (*cpus).to_owned())).collect();
    assert_eq!(found, expect);
    plan
}

fn left_for(plan: &PlacementPlan, reason: LeftAlone) -> String {
    numbers::show(plan.left.iter().filter(|(_, why)| **why == reason).map(|(cpu, _)| cpu.0))
}

#[test]
fn two_cores_on_one_node_get_a_shard_each() {
    let plan = check(&machine(1, 2, 1), ShardCount::PerCore, "node 0: CPUs 0-1", &[]);
    assert_eq!(plan.seats[0].memory, None, "one node is no choice");
    assert_eq!(plan.cautions, []);
}

#[test]
fn a_quota_bounds_the_shards_and_they_are_not_pinned_to_cpus_that_others_use_too() {
    let container =
        machine(1, 8, 1).file(V2.0, V2.1).file("sys/fs/cgroup/pods/node/cpu.max", "200000 100000");
    let bounded = check(&container, ShardCount::PerCore, "not pinned", &[]);
    assert_eq!((bounded.seats.len(), &bounded.cautions[..]), (2, &[Caution::NotPinned][..]));
    assert_eq!((bounded.pinned(), bounded.memory_nodes()), (&[][..], vec![]));
    let forced = check(&container, fixed(4), "not pinned", &[]);
    assert_eq!(forced.cautions, [Caution::AboveQuota { whole_cpus: 2 }, Caution::NotPinned]);
}

/// As the kubelet's static CPU manager gives them.
#[test]
fn a_quota_of_all_cpus_that_may_be_used_leaves_the_shards_pinned() {
    let exclusive = machine(1, 8, 2)
        .file(V2.0, V2.1)
        .file("sys/fs/cgroup/pods/node/cpuset.cpus.effective", "2-3,10-11")
        .file("sys/fs/cgroup/pods/node/cpu.max", "400000 100000");
    let left = [(LeftAlone::Sibling, "10-11"), (LeftAlone::Barred(Barred::ByCpuset), "0-1,4-9,12-15")];
    let plan = check(&exclusive, ShardCount::PerCore, "node 0: CPUs 2-3", &left);
    assert_eq!(plan.cautions, []);
}

#[test]
fn a_quota_below_one_cpu_leaves_one_shard_and_part_of_a_cpu_leaves_none() {
    for (cpu_max, shards, placed) in [
        ("50000 100000", 1, "not pinned"),
        ("399999 100000", 3, "not pinned"),
        ("800000 100000", 8, "node 0: CPUs 0-7"),
        ("max 100000", 8, "node 0: CPUs 0-7"),
    ] {
        let container = machine(1, 8, 1).file(V2.0, V2.1).file("sys/fs/cgroup/pods/cpu.max", cpu_max);
        let plan = plan(&container.topology(), ShardCount::PerCore);
        assert_eq!((plan.seats.len(), plan.to_string().as_str()), (shards, placed), "{cpu_max}");
    }
}

#[test]
fn a_core_with_two_threads_gets_one_shard() {
    let smt = machine(1, 8, 2);
    check(&smt, ShardCount::PerCore, "node 0: CPUs 0-7", &[(LeftAlone::Sibling, "8-15")]);
    let plan = check(&smt, fixed(10), "node 0: CPUs 0-9", &[(LeftAlone::Sibling, "10-15")]);
    assert_eq!(plan.cautions, []);
    let crowded = check(&smt, fixed(18), "node 0: CPUs 0-15", &[]);
    assert_eq!(crowded.cautions, [Caution::SharedCpus { cpus: 16 }]);
    assert_eq!(crowded.cpus()[16..], [0, 1]);
}

#[test]
fn two_nodes_of_sixteen_are_used_alike() {
    let two = machine(2, 16, 1);
    let plan = check(&two, ShardCount::PerCore, "node 0: CPUs 0-15; node 1: CPUs 16-31", &[]);
    assert_eq!(plan.seats[0].memory, Some(NodeId(0)));
    assert_eq!(plan.seats[31].memory, Some(NodeId(1)));
    check(&two, fixed(5), "node 0: CPUs 0-2; node 1: CPUs 16-17", &[(LeftAlone::NotAsked, "3-15,18-31")]);
}

#[test]
fn nodes_that_differ_in_cores_are_each_used_as_far_as_they_go() {
    // 4 × 24, of which the affinity mask leaves 2, 24, 4 and none.
    let mask = numbers::parse("0-1,24-47,48-51").unwrap();
    let topology = machine(4, 24, 1).read(&mask).unwrap();
    assert_eq!(
        plan(&topology, ShardCount::PerCore).to_string(),
        "node 0: CPUs 0-1; node 1: CPUs 24-47; node 2: CPUs 48-51"
    );
    let twelve = plan(&topology, fixed(12));
    assert_eq!(twelve.to_string(), "node 0: CPUs 0-1; node 1: CPUs 24-29; node 2: CPUs 48-51");
    assert_eq!(left_for(&twelve, LeftAlone::Barred(Barred::ByAffinity)), "2-23,52-95");
}

#[test]
fn eight_nodes_of_a_socket_get_their_share() {
    let eight = machine(8, 8, 2);
    let all = "node 0: CPUs 0-7; node 1: CPUs 8-15; node 2: CPUs 16-23; node 3: CPUs 24-31; \
               node 4: CPUs 32-39; node 5: CPUs 40-47; node 6: CPUs 48-55; node 7: CPUs 56-63";
    check(&eight, ShardCount::PerCore, all, &[(LeftAlone::Sibling, "64-127")]);
    let one_each = plan(&eight.topology(), fixed(8));
    assert_eq!(one_each.cpus(), [0, 8, 16, 24, 32, 40, 48, 56]);
    assert!(one_each.seats.iter().enumerate().all(|(node, seat)| seat.memory == Some(NodeId(node))));
}

#[test]
fn offline_cpus_are_left_alone_and_their_siblings_are_used() {
    let plan = check(
        &machine(1, 4, 2).offline([1, 6]),
        ShardCount::PerCore,
        "node 0: CPUs 0,2-3,5",
        &[(LeftAlone::Sibling, "4,7"), (LeftAlone::Barred(Barred::Offline), "1,6")],
    );
    assert_eq!(plan.seats.len(), 4);
}

#[test]
fn cores_of_a_node_without_memory_come_last_and_take_the_nearest_node_s() {
    let node = "sys/devices/system/node";
    let three = machine(3, 2, 1)
        .file(&format!("{node}/node1/meminfo"), "Node 1 MemTotal: 0 kB")
        .file(&format!("{node}/node1/distance"), "32 10 16");
    let all = check(&three, ShardCount::PerCore, "node 0: CPUs 0-1; node 1: CPUs 2-3; node 2: CPUs 4-5", &[]);
    assert_eq!(all.seats[2].memory, Some(NodeId(2)));
    check(&three, fixed(4), "node 0: CPUs 0-1; node 2: CPUs 4-5", &[(LeftAlone::NotAsked, "2-3")]);
}

#[test]
fn memory_that_the_cgroup_does_not_allow_is_as_none() {
    let limited = machine(2, 1, 1).file("proc/self/status", "Name:\tx\nMems_allowed_list:\t0");
    let plan = plan(&limited.topology(), ShardCount::PerCore);
    assert_eq!(plan.to_string(), "node 0: CPUs 0; node 1: CPUs 1");
    assert_eq!(plan.seats[1].memory, None, "one node is no choice");
}

#[test]
fn a_node_without_cpus_gives_no_core() {
    let expander = machine(1, 2, 1)
        .file("sys/devices/system/node/online", "0-1")
        .file("sys/devices/system/node/node0/distance", "10 17")
        .file("sys/devices/system/node/node1/cpulist", "")
        .file("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 1048576 kB")
        .file("sys/devices/system/node/node1/distance", "17 10");
    let plan = check(&expander, ShardCount::PerCore, "node 0: CPUs 0-1", &[]);
    assert!(plan.seats.iter().all(|seat| seat.memory == Some(NodeId(0))));
    assert_eq!(expander.topology().distance(NodeId(1), NodeId(0)), 17);
}

#[test]
fn a_node_has_no_more_shards_than_the_limit() {
    let large = check(
        &machine(2, 96, 1),
        ShardCount::PerCore,
        "node 0: CPUs 0-63; node 1: CPUs 96-159",
        &[(LeftAlone::ShardsMax, "64-95,160-191")],
    );
    assert_eq!(large.seats.len(), SHARDS_MAX);
}

/// The CPUs to run on and the quota, of these files alone and an affinity mask.
fn check_files(files: &[(&str, &str)], mask: &[usize]) -> (Vec<usize>, Option<f64>) {
    let topology = bare(files).read(&mask.iter().copied().collect()).unwrap();
    let cpus = topology.cores.iter().map(|core| core.cpus[0].0).collect();
    (cpus, topology.quota.map(|quota| quota.cpus()))
}

/// A machine that has no files but these.
fn bare(files: &[(&str, &str)]) -> Machine {
    let none = machine(0, 0, 1)
        .without("sys/devices/system/cpu/present")
        .without("sys/devices/system/cpu/online")
        .without("sys/devices/system/node/online")
        .without("proc/meminfo");
    files.iter().fold(none, |machine, (path, text)| machine.file(path, text))
}

const SMT: [(&str, &str); 4] = [
    ("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,2"),
    ("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,3"),
    ("sys/devices/system/cpu/cpu2/topology/core_cpus_list", "0,2"),
    ("sys/devices/system/cpu/cpu3/topology/core_cpus_list", "1,3"),
];

#[test]
fn one_cpu_for_each_physical_core() {
    assert_eq!(check_files(&SMT, &[0, 1, 2, 3]), (vec![0, 1], None));
}

#[test]
fn a_core_of_which_the_mask_leaves_one_thread_is_used_on_that_thread() {
    assert_eq!(check_files(&SMT, &[1, 2, 3]).0, [1, 2]);
}

#[test]
fn without_a_topology_each_cpu_is_a_core_of_one_node() {
    assert_eq!(check_files(&[], &[0, 1, 4]), (vec![0, 1, 4], None));
    let topology = bare(&[]).read(&BTreeSet::from([0, 1])).unwrap();
    assert_eq!(topology.nodes.len(), 1);
    assert_eq!(topology.nodes[0].cpus, BTreeSet::from([CpuId(0), CpuId(1)]));
}

#[test]
fn a_v2_cgroup_narrows_the_mask_and_the_tightest_quota_above_holds() {
    let files = [
        V2,
        ("sys/fs/cgroup/pods/node/cpuset.cpus.effective", "1-2,6"),
        ("sys/fs/cgroup/pods/node/cpu.max", "max 100000"),
        ("sys/fs/cgroup/pods/cpu.max", "150000 100000"),
        ("sys/fs/cgroup/cpuset.cpus.effective", "0-7"),
    ];
    assert_eq!(check_files(&files, &[0, 1, 2, 3]), (vec![1, 2], Some(1.5)));
}

#[test]
fn a_group_above_narrows_the_cpus_too() {
    let files = [
        V2,
        ("sys/fs/cgroup/pods/node/cpuset.cpus.effective", "0-3"),
        ("sys/fs/cgroup/pods/cpuset.cpus.effective", "2-7"),
    ];
    assert_eq!(check_files(&files, &[0, 1, 2, 3]).0, [2, 3]);
}

#[test]
fn a_v1_cgroup_narrows_the_mask_too() {
    let files = [
        ("proc/self/cgroup", "5:cpuset:/node\n4:cpu,cpuacct:/node\n0::/"),
        ("sys/fs/cgroup/cpuset/node/cpuset.cpus", "3"),
        ("sys/fs/cgroup/cpu/node/cpu.cfs_quota_us", "50000"),
        ("sys/fs/cgroup/cpu/node/cpu.cfs_period_us", "100000"),
        ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1"),
        ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000"),
    ];
    assert_eq!(check_files(&files, &[0, 3]), (vec![3], Some(0.5)));
}

#[test]
fn v1_controllers_that_are_mounted_together_are_found_under_all_their_names() {
    let files = [
        ("proc/self/cgroup", "4:cpu,cpuacct:/node"),
        ("sys/fs/cgroup/cpu,cpuacct/node/cpu.cfs_quota_us", "300000"),
        ("sys/fs/cgroup/cpu,cpuacct/node/cpu.cfs_period_us", "100000"),
    ];
    assert_eq!(check_files(&files, &[0]).1, Some(3.0));
}

#[test]
fn a_group_that_only_the_host_sees_is_found_at_the_top_of_the_mount() {
    let files = [("proc/self/cgroup", "5:cpuset:/docker/abc"), ("sys/fs/cgroup/cpuset/cpuset.cpus", "2")];
    assert_eq!(check_files(&files, &[0, 1, 2]).0, [2]);
    let outside = [("proc/self/cgroup", "0::/../other"), ("sys/fs/cgroup/cpuset.cpus.effective", "1")];
    assert_eq!(check_files(&outside, &[0, 1, 2]).0, [1]);
}

#[test]
fn no_common_cpu_is_an_error() {
    let files = [V2, ("sys/fs/cgroup/cpuset.cpus.effective", "5"), ("sys/fs/cgroup/pods/node/x", "")];
    let none = bare(&files).read(&BTreeSet::from([0]));
    assert!(matches!(none, Err(TopologyError::NoneAllowed)), "{none:?}");
    let offline = machine(1, 2, 1).offline([1]).read(&BTreeSet::from([1]));
    assert!(matches!(offline, Err(TopologyError::NoneAllowed)), "{offline:?}");
}

#[test]
fn a_file_that_cannot_be_understood_is_an_error_that_names_it() {
    let node = "sys/devices/system/node";
    let bad = [
        ("sys/devices/system/cpu/online", "many"),
        ("sys/devices/system/cpu/present", "0-"),
        ("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "1-0"),
        ("sys/devices/system/cpu/cpu0/topology/physical_package_id", ""),
        (&format!("{node}/online"), ""),
        (&format!("{node}/node1/cpulist"), "\0\u{1}"),
        (&format!("{node}/node1/meminfo"), ""),
        (&format!("{node}/node0/distance"), "10"),
        ("proc/self/status", "Mems_allowed_list:\tall"),
        ("sys/fs/cgroup/pods/node/cpu.max", "many"),
        ("sys/fs/cgroup/pods/cpu.max", "100000 0"),
        ("sys/fs/cgroup/cpuset.cpus.effective", "-1"),
    ];
    for (path, text) in bad {
        let directory = ("sys/fs/cgroup/pods/node/cgroup.procs", "");
        let machine = machine(2, 2, 1).file(V2.0, V2.1).file(directory.0, directory.1).file(path, text);
        let error = machine.read(&machine.cpus()).expect_err(path);
        assert!(error.to_string().contains(path), "{path} in {error}");
    }
}

#[test]
fn a_file_that_is_missing_has_its_fall_back() {
    let node = "sys/devices/system/node";
    let poor = machine(2, 2, 1)
        .without("sys/devices/system/cpu/online")
        .without("sys/devices/system/cpu/present")
        .without("sys/devices/system/cpu/cpu0/topology/physical_package_id")
        .without(&format!("{node}/node0/distance"))
        .without(&format!("{node}/node1/meminfo"))
        .without(&format!("{node}/node1/cpulist"));
    let topology = poor.topology();
    assert_eq!(topology.cores.len(), 4);
    assert!(topology.cores.iter().all(|core| core.node == NodeId(0)), "a CPU of no node is the first's");
    assert_eq!((topology.distance(NodeId(0), NodeId(1)), topology.distance(NodeId(1), NodeId(0))), (20, 21));
    assert!(!topology.node(NodeId(1)).unwrap().has_usable_memory());
}

#[test]
fn the_real_machine_has_a_core_and_a_plan() {
    let topology = Topology::of_this_process().unwrap();
    assert!(!plan(&topology, ShardCount::PerCore).seats.is_empty());
}

fn picture_of(machine: &Machine, shards: ShardCount) -> String {
    let topology = machine.topology();
    Picture { topology: &topology, plan: &plan(&topology, shards) }.to_string()
}

#[test]
fn a_picture_shows_nodes_cores_shards_distances_and_what_is_left_alone() {
    let shown = picture_of(&machine(2, 3, 2).offline([11]), fixed(4));
    let expect = "\
2 nodes, 6 usable cores, 11 usable CPUs, no quota: 4 shards

node 0   16.0 GiB, 3 usable cores, 2 shards
   s0  0+6   s1  1+7   --  2+8

node 1   16.0 GiB, 3 usable cores, 2 shards
   s2  3+9    s3  4+10   --  5

distances    n0   n1
   n0        10   21
   n1        21   10

without a shard: SMT sibling of a shard's CPU
   6-7,9-10

without a shard: no more shards were asked for
   2,5,8

without a shard: offline
   11
";
    assert_eq!(shown, expect);
}

#[test]
fn a_picture_of_shards_that_are_not_pinned_puts_them_nowhere_and_says_why() {
    let container = machine(1, 3, 2).file(V2.0, V2.1).file("sys/fs/cgroup/pods/cpu.max", "200000 100000");
    let expect = "\
1 node, 3 usable cores, 6 usable CPUs, a quota of 2.0 CPUs: 2 shards

node 0   16.0 GiB, 3 usable cores
   0+3   1+4   2+5

caution:
   the cgroup's quota is smaller than its set of CPUs, so others run on them,
   too: shards aren't pinned (Kubernetes: whole CPUs and the static CPU manager)
";
    assert_eq!(picture_of(&container, ShardCount::PerCore), expect);
    let topology = container.topology();
    let plan = plan(&topology, ShardCount::PerCore);
    let json: serde_json::Value =
        serde_json::from_str(&Picture { topology: &topology, plan: &plan }.json()).unwrap();
    let nowhere = serde_json::json!({"shard": 1, "cpu": null, "node": null, "memory_node": null});
    assert_eq!((&json["shards"][1], &json["without_a_shard"]), (&nowhere, &serde_json::json!([])));
}

#[test]
fn a_picture_of_any_machine_fits_80_columns() {
    for machine in
        [machine(1, 2, 1), machine(2, 16, 2), machine(4, 24, 2), machine(8, 8, 2), machine(2, 64, 2)]
    {
        for shards in [ShardCount::PerCore, fixed(1), fixed(SHARDS_MAX)] {
            let picture = picture_of(&machine, shards);
            let longest = picture.lines().map(str::len).max();
            assert!(longest <= Some(80), "{picture}");
        }
    }
}

#[test]
fn the_json_holds_what_the_picture_shows() {
    let topology = machine(2, 1, 2).topology();
    let plan = plan(&topology, ShardCount::PerCore);
    let json: serde_json::Value =
        serde_json::from_str(&Picture { topology: &topology, plan: &plan }.json()).unwrap();
    assert_eq!(json["shards"][1], serde_json::json!({"shard": 1, "cpu": 1, "node": 1, "memory_node": 1}));
    assert_eq!(json["nodes"][0]["distances"], serde_json::json!([10, 21]));
    assert_eq!(json["without_a_shard"][0]["cpu"], 2);
    assert_eq!(json["quota"], serde_json::Value::Null);
}
