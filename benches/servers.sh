# The servers that are measured beside each other: which of them are here, how each is started and
# stopped. Sourced by the scripts beside it; those that take --only set `only` after that, and before they
# look for contestants.
#
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# All that measures, and the contender.
bench=${BENCH:-$root/target/release/silverback-bench}
all_cpus=0-$(($(nproc) - 1))
scratch="" server="" ready_url="" write_url=""

# A directory in directory $1 for all that is written; it and the server go when the script ends.
open_scratch() {
    scratch=$(mktemp -d --tmpdir="$1")
    trap 'stop_server; rm -rf "$scratch"' EXIT
}

servers_usage() {
    cat <<'USAGE'
contestants, as far as they are found:
       silverback            target/release/silverback           (SILVERBACK=PATH for another)
       silverback-contender  target/release/silverback-bench     (CONTENDER=PATH for another build)
       silverback-memory, silverback-contender-memory            only by MEMORY=1: both with --ack memory
       silverback-former     only by FORMER=PATH, a build of another commit
       victoria-metrics      in the path                         (VICTORIA_METRICS=PATH for another)
       prometheus            in the path                         (PROMETHEUS=PATH for another)
       prometheus-current    only by PROMETHEUS_CURRENT=PATH, a release that speaks remote write 2.0
USAGE
}

# Runs a command on these CPUs, in place of this shell. With one CPU there is nothing to pin.
on_cpus() {
    local cpus=$1
    shift
    if (($(nproc) > 1)); then exec taskset -c "$cpus" "$@"; else exec "$@"; fi
}

# Before a command whose latency is measured, and its loader's: ahead of what else runs on the machine,
# whose daemons take milliseconds at a time. Nothing where that isn't allowed.
undisturbed=(chrt --rr 1)
"${undisturbed[@]}" true 2>/dev/null || undisturbed=()

declare -A binary
found=() before=()
# Takes contestant $1 in if $2 is a program and --only doesn't leave it out.
contestant() {
    local path
    path=$(command -v "$2" 2>/dev/null) || return 0
    [[ -z ${only:-} || $only == *,$1,* ]] || return 0
    binary[$1]=$path
    found+=("$1")
}

# Starts contestant $1 on data directory $2 and CPUs $3, with the further arguments, and doesn't
# wait: its process is $server, and it answers at $ready_url once it takes writes. $before is what is
# before its command.
launch_server() {
    local name=$1 data=$2 cpus=$3 ready=/-/ready port=$((20000 + RANDOM % 10000)) arguments
    shift 3
    mkdir -p "$data"
    : >"$scratch/empty.yml"
    case $name in
        silverback | silverback-former) arguments=(--listen "127.0.0.1:$port" --data-dir "$data" --no-self-scrape) ;;
        silverback-memory)
            arguments=(--listen "127.0.0.1:$port" --data-dir "$data" --no-self-scrape --ack memory)
            ;;
        silverback-contender) arguments=(contender --listen "127.0.0.1:$port" --data-dir "$data") ;;
        silverback-contender-memory)
            arguments=(contender --listen "127.0.0.1:$port" --data-dir "$data" --ack memory)
            ;;
        victoria-metrics)
            ready=/health
            arguments=("-httpListenAddr=127.0.0.1:$port" "-storageDataPath=$data" -retentionPeriod=10y)
            ;;
        prometheus | prometheus-current)
            arguments=("--web.listen-address=127.0.0.1:$port" "--storage.tsdb.path=$data"
                "--config.file=$scratch/empty.yml" --web.enable-remote-write-receiver --log.level=warn)
            ;;
    esac
    (on_cpus "$cpus" "${before[@]}" "${binary[$name]}" "${arguments[@]}" "$@") >"$scratch/$name.log" 2>&1 &
    server=$!
    ready_url=http://127.0.0.1:$port$ready
    write_url=http://127.0.0.1:$port/api/v1/write
}

# The same, and waits until it takes writes.
start_server() {
    launch_server "$@"
    for _ in $(seq 300); do
        if curl -fsS -m 1 -o /dev/null "$ready_url" 2>/dev/null; then return; fi
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    echo "$1 isn't ready; its log:" >&2
    tail -20 "$scratch/$1.log" >&2
    return 1
}

# Ends the server as one does in peace, and by force where it doesn't.
stop_server() {
    [[ -n $server ]] || return 0
    kill -TERM "$server" 2>/dev/null || true
    for _ in $(seq 100); do
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    kill_server
}

# Ends the server without a chance to do anything more.
kill_server() {
    [[ -n $server ]] || return 0
    kill -KILL "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    server=""
}

# Where figures were taken.
machine() {
    local model
    model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | sed -n 1p)
    echo "$(nproc) × ${model:-unknown CPU}, Linux $(uname -r)"
}
