//! The configuration from all its layers together.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

use silverback_model::gorilla::FloatEncoding;
use silverback_test_support::Scratch;

use super::*;

/// Loads from a file's text, variables and flags.
fn load_from(file: &str, variables: &[(&str, &str)], flags: &[&str]) -> Result<Effective, ConfigErrors> {
    let directory = Scratch::new();
    let path = directory.join("silverback.yaml");
    std::fs::write(&path, file).unwrap();
    load_with_file(&path, variables, flags)
}

fn load_with_file(
    path: &Path,
    variables: &[(&str, &str)],
    flags: &[&str],
) -> Result<Effective, ConfigErrors> {
    let command = with_options(clap::Command::new("silverback"));
    let config_flag = ["silverback", "--config", path.to_str().unwrap()];
    let matches = command.try_get_matches_from(config_flag.iter().chain(flags)).unwrap();
    load([&matches], variables.iter().map(|(name, value)| (name.into(), value.into())))
}

fn faults(file: &str, variables: &[(&str, &str)], flags: &[&str]) -> Vec<String> {
    load_from(file, variables, flags).unwrap_err().0.iter().map(ConfigError::to_string).collect()
}

/// The one fault holds all of these.
fn check_fault(file: &str, variables: &[(&str, &str)], flags: &[&str], parts: &[&str]) {
    let faults = faults(file, variables, flags);
    assert_eq!(faults.len(), 1, "{faults:#?}");
    for part in parts {
        assert!(faults[0].contains(part), "{part:?} in {:?}", faults[0]);
    }
}

#[test]
fn nothing_given_is_the_default() {
    let effective = load_from("# nothing\n", &[], &[]).unwrap();
    assert_eq!(effective.config, Config::default());
    assert_eq!(effective.origin("listen"), &Origin::Default);
}

#[test]
fn the_default_is_within_what_is_allowed() {
    let text = load_from("", &[], &[]).unwrap().to_string();
    assert_eq!(load_from(&text, &[], &[]).unwrap().config, Config::default());
}

#[test]
fn a_flag_covers_a_variable_covers_the_file_covers_the_default() {
    let file = "retention: 3h\nshards: 3\nmax-reads: 3\n";
    let variables = [("SILVERBACK_RETENTION", "4h"), ("SILVERBACK_SHARDS", "4")];
    let effective = load_from(file, &variables, &["--retention", "5h"]).unwrap();
    assert_eq!(effective.config.retention, Duration::from_secs(5 * 3600));
    assert_eq!(effective.config.shards, ShardCount::Fixed(NonZeroUsize::new(4).unwrap()));
    assert_eq!(effective.config.max_reads, 3);
    assert_eq!(effective.origin("retention"), &Origin::Flag("--retention".to_owned()));
    assert_eq!(effective.origin("shards"), &Origin::Environment("SILVERBACK_SHARDS".to_owned()));
    assert!(matches!(effective.origin("max-reads"), Origin::File(_, Some(3))));
}

#[test]
fn every_option_is_taken_from_flag_variable_and_file_alike() {
    for option in options::OPTIONS {
        let value = match (option.show)(&Config::default()) {
            options::ShownValue::One(value) => value,
            // An empty variable is one that isn't set.
            options::ShownValue::Many(values) if values.is_empty() && option.name.ends_with("-listen") => {
                "127.0.0.1:9".to_owned()
            }
            options::ShownValue::Many(values) if values.is_empty() && option.name == "external-labels" => {
                "cluster=eu-1".to_owned()
            }
            options::ShownValue::Many(values) if values.is_empty() => "*".to_owned(),
            options::ShownValue::Many(values) => values.join(","),
        };
        let flag = load_from("", &[], &[&format!("--{}={value}", option.name)]).unwrap();
        assert!(matches!(flag.origin(option.name), Origin::Flag(_)));
        let variable = load_from("", &[(&environment::variable_name(option.name), &value)], &[]).unwrap();
        assert!(matches!(variable.origin(option.name), Origin::Environment(_)));
        let file = load_from(&format!("{}: {value:?}", option.name), &[], &[]).unwrap();
        assert!(matches!(file.origin(option.name), Origin::File(_, Some(1))));
        assert_eq!(flag.config, variable.config);
        assert_eq!(flag.config, file.config);
    }
}

#[test]
fn a_label_that_all_series_get_has_a_name_of_its_own() {
    let labels = "--external-labels=cluster=eu-1,zone=\"b\"";
    let effective = load_from("replica-label: replica", &[], &[labels]).unwrap();
    assert!(effective.to_string().contains("external-labels: [\"cluster=eu-1\", \"zone=b\"]"), "{effective}");
    assert_eq!(effective.config.replica_label.as_deref(), Some("replica"));
    let parts = |name: &'static str| [name, "both have", "allowed: each name for one of them"];
    check_fault("replica-label: zone", &[], &[labels], &parts("zone"));
    check_fault("tenant-label-name: cluster", &[], &[labels], &parts("cluster"));
    check_fault("replica-label: tenant_id", &[], &[], &parts("tenant_id"));
    check_fault("", &[], &["--external-labels=a=1,a=2"], &["a occurs twice"]);
    check_fault("replica-label: ''", &[], &[], &["isn't a label's name"]);
}

#[test]
fn a_list_is_repeated_flags_commas_or_a_yaml_list() {
    let expect: Vec<SocketAddr> = vec!["0.0.0.0:1".parse().unwrap(), "[::1]:2".parse().unwrap()];
    let flags = load_from("listen: ['127.0.0.1:9']", &[], &["--listen=:1", "--listen=[::1]:2"]).unwrap();
    assert_eq!(flags.config.listen, expect);
    let variable = load_from("", &[("SILVERBACK_LISTEN", "0.0.0.0:1, [::1]:2")], &[]).unwrap();
    assert_eq!(variable.config.listen, expect);
    let file = load_from("listen:\n- :1\n- '[::1]:2'\n", &[], &[]).unwrap();
    assert_eq!(file.config.listen, expect);
    let empty = load_from("allowed-hosts: [a.example]", &[], &["--allowed-hosts="]).unwrap();
    assert_eq!(empty.config.allowed_hosts, AllowedHosts::default());
    assert!(empty.to_string().contains("allowed-hosts: []"), "{empty}");
}

#[test]
fn all_faults_are_told_together() {
    let file = "retension: 3h\nmax-reads: 0\n";
    let faults = faults(file, &[("SILVERBACK_SHARDS", "many")], &["--retention=5", "--log-format=xml"]);
    assert_eq!(faults.len(), 5, "{faults:#?}");
}

#[test]
fn a_fault_tells_its_place_its_cause_and_what_is_allowed() {
    check_fault(
        "\nmax-reads: 0",
        &[],
        &[],
        &["max-reads (file ", ".yaml:2)", "too small", "from 1 to 10000"],
    );
    check_fault("", &[("SILVERBACK_SHARDS", "x")], &[], &["shards (env SILVERBACK_SHARDS)", "auto", "128"]);
    check_fault("", &[], &["--retention=5m"], &["retention (flag --retention)", "too small", "1h"]);
    check_fault("", &[], &["--listen=nowhere"], &["nowhere", "127.0.0.1:9009"]);
    check_fault("", &[], &["--log-level=silverback=loud"], &["neither a level", "info"]);
}

#[test]
fn an_unknown_key_is_a_fault_with_the_nearest_name() {
    check_fault("retension: 3h", &[], &[], &["retension", "no such option", "did you mean retention?"]);
    check_fault("zzz: 3h", &[], &[], &["zzz", "no such option", "listen, data-dir"]);
}

#[test]
fn a_fault_is_told_even_where_a_later_layer_covers_it() {
    check_fault("shards: many", &[], &["--shards=2"], &["shards (file "]);
}

#[test]
fn a_file_that_is_no_mapping_or_no_yaml_or_not_there_is_a_fault() {
    check_fault("- 1", &[], &[], &["not a mapping"]);
    check_fault("a: [", &[], &[], &["not YAML"]);
    check_fault("shards: 1\nshards: 2", &[], &[], &["duplicate"]);
    check_fault("shards: {a: 1}", &[], &[], &["nested"]);
    check_fault("shards: [1, 2]", &[], &[], &["2 values"]);
    let missing = load_with_file(Path::new("/nonexistent/silverback.yaml"), &[], &[]).unwrap_err();
    assert!(missing.to_string().contains("can't be read"), "{missing}");
}

#[test]
fn the_file_may_be_named_by_the_environment() {
    let matches =
        with_options(clap::Command::new("silverback")).try_get_matches_from(["silverback"]).unwrap();
    let environment = [(OsString::from("SILVERBACK_CONFIG"), OsString::from("/nonexistent/x.yaml"))];
    let faults = load([&matches], environment).unwrap_err();
    assert!(faults.to_string().contains("/nonexistent/x.yaml"), "{faults}");
}

#[test]
fn options_that_contradict_each_other_are_a_fault_with_both_origins() {
    let parts =
        ["header-timeout (default)", "request-timeout (flag --request-timeout)", "10s is more than 5s"];
    check_fault("", &[], &["--request-timeout=5s"], &parts);
    check_fault("", &[], &["--max-body-bytes=64MiB"], &["max-decoded-bytes (default)", "64MiB", "32MiB"]);
    let blocks = ["--blocks=on", "--blocks-delay=0s", "--retention=1h"];
    let parts = [
        "0 + 2h30m for a range and its cut is more than 1h",
        "allowed: blocks-delay + 2h30m for a range and its cut at most retention",
    ];
    check_fault("", &[], &blocks, &parts);
}

#[test]
fn a_faulty_value_is_not_also_held_against_another() {
    check_fault(
        "",
        &[],
        &["--header-timeout=x", "--request-timeout=5s"],
        &["header-timeout", "not a duration"],
    );
}

#[test]
fn self_scraping_is_turned_off_in_two_ways() {
    for flag in ["--no-self-scrape", "--self-scrape-interval=0"] {
        assert_eq!(load_from("", &[], &[flag]).unwrap().config.self_scrape_interval, None);
    }
    let number = load_from("self-scrape-interval: 0", &[], &[]).unwrap();
    assert_eq!(number.config.self_scrape_interval, None);
    check_fault("", &[], &["--self-scrape-interval=10ms"], &["too small", "0 turns it off"]);
}

#[test]
fn self_scraping_is_turned_off_by_its_own_name_in_every_layer() {
    let interval = |file: &str, variables: &[(&str, &str)], flags: &[&str]| {
        load_from(file, variables, flags).unwrap().config.self_scrape_interval
    };
    let default = Config::default().self_scrape_interval;
    let off = ("SILVERBACK_NO_SELF_SCRAPE", "true");
    assert_eq!(interval("no-self-scrape: true", &[], &[]), None);
    assert_eq!(interval("", &[off], &[]), None);
    assert_eq!(interval("no-self-scrape: false", &[("SILVERBACK_NO_SELF_SCRAPE", "false")], &[]), default);
    assert_eq!(interval("no-self-scrape: true", &[], &["--self-scrape-interval=15s"]), default);
    assert_eq!(interval("self-scrape-interval: 15s", &[off], &[]), None);
    let effective = load_from("\nno-self-scrape: true", &[], &[]).unwrap();
    assert!(matches!(effective.origin("self-scrape-interval"), Origin::File(_, Some(2))));
    check_fault("no-self-scrape: 5s", &[], &[], &["no-self-scrape (file ", "neither true nor false"]);
    check_fault("", &[("SILVERBACK_NO_SELF_SCRAPE", "no")], &[], &["no-self-scrape (env ", "true, false"]);
    let both = "no-self-scrape: true\nself-scrape-interval: 5s";
    check_fault(both, &[], &[], &["self-scrape-interval (file ", "given twice"]);
    let both = [off, ("SILVERBACK_SELF_SCRAPE_INTERVAL", "5s")];
    check_fault("", &both, &[], &["self-scrape-interval (env ", "given twice"]);
}

#[test]
fn a_word_that_is_no_log_level_switches_nothing_off() {
    for level in [
        "warn",
        "INFO",
        "off",
        "info,silverback_storage::wal=debug",
        "silverback=trace",
        "info,[span{field=1}]=debug",
    ] {
        assert_eq!(load_from("", &[], &[&format!("--log-level={level}")]).unwrap().config.log_level, level);
    }
    let check = |level: &str, parts: &[&str]| check_fault("", &[], &[&format!("--log-level={level}")], parts);
    check("warning", &["neither a level", "did you mean warn?", "trace"]);
    check("inof", &["did you mean info?"]);
    check("silverback_storage::wal", &["neither a level", "silverback_storage::wal=debug"]);
    check("info,silverback_storage::wal", &["neither a level"]);
    check("info,", &["neither a level"]);
    check("verbose", &["allowed: error, warn"]);
}

#[test]
fn a_memory_limit_is_automatic_or_a_size_that_one_shard_can_run_with() {
    let limit =
        |text: &str| load_from("", &[], &[&format!("--memory-limit={text}")]).unwrap().config.memory_limit;
    assert_eq!(limit("auto"), MemoryLimit::Auto);
    assert_eq!(limit("2GiB"), MemoryLimit::Fixed(2 << 30));
    check_fault("", &[], &["--memory-limit=1MiB"], &["memory-limit", "too small", "auto, or a size from"]);
    check_fault("", &[], &["--memory-limit=most"], &["not a size"]);
}

#[test]
fn what_is_shown_as_a_file_is_read_back_as_the_same() {
    for odd in
        ["plain", "'\"\\ #", "yes", "1e3", "\u{1}\t\n", "\u{7f}", "\u{85}\u{9f}", "\u{2028}\u{feff}", "höhe"]
    {
        let config = load_from("", &[], &[&format!("--data-dir=/tmp/{odd}")]).unwrap().config;
        let again = load_from(&config.yaml(), &[], &[]).unwrap_or_else(|faults| panic!("{odd:?}: {faults}"));
        assert_eq!(again.config, config, "{odd:?}");
    }
}

#[test]
fn a_query_memory_is_automatic_or_a_size() {
    let memory =
        |text: &str| load_from("", &[], &[&format!("--query-memory={text}")]).unwrap().config.query_memory;
    assert_eq!((memory("auto"), memory("64MiB")), (None, Some(64 << 20)));
    check_fault(
        "",
        &[],
        &["--query-memory=1KiB"],
        &["query-memory", "too small", "auto, or a size from 1MiB"],
    );
}

#[test]
fn floats_are_xor_chunks_in_blocks_unless_another_encoding_is_named() {
    let floats = |flags: &[&str]| load_from("", &[], flags).unwrap().config.float_chunks;
    assert_eq!(floats(&[]), FloatEncoding::Xor);
    assert_eq!(floats(&["--float-chunks=xor"]), FloatEncoding::Xor);
    assert_eq!(floats(&["--float-chunks=xor2"]), FloatEncoding::Xor2);
    let parts = ["float-chunks", "\"xor3\" isn't an encoding of floats", "allowed: xor, xor2"];
    check_fault("", &[], &["--float-chunks=xor3"], &parts);
}

#[test]
fn blocks_are_shipped_with_labels_only_and_as_fast_as_is_said() {
    let parts = ["objstore-config-file (flag", "external-labels (default)", "no external labels are set"];
    check_fault("", &[], &["--objstore-config-file=a.yml"], &parts);
    for labels in ["--external-labels=cluster=eu-1", "--replica-label=replica"] {
        let config = load_from("", &[], &["--objstore-config-file=a.yml", labels]).unwrap().config;
        assert_eq!(config.objstore_config_file.as_deref(), Some(Path::new("a.yml")));
        assert_eq!(config.ship_bandwidth, None);
    }
    let bandwidth = |text: &str| load_from(&format!("ship-bandwidth: {text}"), &[], &[]).unwrap().config;
    assert_eq!(bandwidth("10MiB").ship_bandwidth.map(NonZeroU64::get), Some(10 << 20));
    assert_eq!(bandwidth("unlimited").ship_bandwidth, None);
    check_fault("", &[], &["--ship-bandwidth=1KiB"], &["too small", "unlimited, or a size from 64KiB"]);
}

#[test]
fn an_empty_variable_and_one_of_kubernetes_are_not_set() {
    let variables = [("SILVERBACK_SHARDS", ""), ("SILVERBACK_SERVICE_HOST", "10.0.0.1")];
    assert_eq!(load_from("", &variables, &[]).unwrap().config, Config::default());
}

#[test]
fn an_unknown_variable_is_a_fault_with_the_nearest_name() {
    let check = |name: &str, parts: &[&str]| check_fault("", &[(name, "1")], &[], parts);
    check("SILVERBACK_RETENSION", &["env SILVERBACK_RETENSION", "did you mean SILVERBACK_RETENTION?"]);
    check("SILVERBACK_NO_SELFSCRAPE", &["did you mean SILVERBACK_NO_SELF_SCRAPE?"]);
    check("SILVERBACK_ZZZ", &["no such option", "silverback --help"]);
    let others =
        [("SILVERBACK_PORT_9009_TCP", "tcp://10.0.0.1"), ("SILVERBACK_ADDRESS", "a"), ("SILVERBACKS", "1")];
    assert_eq!(load_from("", &others, &[]).unwrap().config, Config::default());
}

#[test]
fn the_effective_configuration_reads_back_as_itself() {
    let flags =
        ["--data-dir=a # 'b': null", "--max-series=2e6", "--log-level=info,silverback_storage::wal=debug"];
    let effective = load_from("", &[], &flags).unwrap();
    let text = effective.to_string();
    assert!(text.contains("# flag --data-dir"), "{text}");
    assert_eq!(load_from(&text, &[], &[]).unwrap().config, effective.config);
    let odd = load_from("", &[], &["--data-dir=null"]).unwrap();
    assert_eq!(load_from(&odd.to_string(), &[], &[]).unwrap().config, odd.config);
}
