//! The command as a process on a data directory: started, asked, killed.
//!
//! Knows what it prints and where it puts its logs, not what it is asked. All of it panics, as a test's own lines
//! would, where the command can't be run, doesn't answer in time or ends too early.

use std::fs;
use std::io::{self, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};

use crate::http::{Answer, send, try_read_answer};
use crate::{Directory, Process, TEST_TIMEOUT, Waiting};

/// A data directory, and beside it what the node says.
#[derive(Debug)]
pub struct Home {
    program: PathBuf,
    place: Directory,
    data_dir: PathBuf,
    shutdown_timeout: &'static str,
}

impl Home {
    /// An empty one below `parent`, for nodes of the command at `program`.
    pub fn new(program: &str, parent: &str, name: &str) -> Self {
        let place = Directory::new(parent, &format!("crash-{name}"));
        let data_dir = place.path().join("data");
        fs::create_dir_all(&data_dir).unwrap();
        Self { program: program.into(), place, data_dir, shutdown_timeout: "2s" }
    }

    /// Has the data directory elsewhere from now on.
    pub fn move_data_dir(&mut self, data_dir: PathBuf) {
        self.data_dir = data_dir;
    }

    /// Gives nodes more time to end from now on, or less.
    pub fn set_shutdown_timeout(&mut self, limit: &'static str) {
        self.shutdown_timeout = limit;
    }

    /// The data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.data_dir.clone()
    }

    /// One log's directory.
    pub fn log_dir(&self, generation: &str, shard: usize) -> PathBuf {
        self.data_dir().join("wal").join(generation).join(shard.to_string())
    }

    fn told(&self) -> PathBuf {
        self.place.path().join("told")
    }

    /// The command on this directory, its output going to a file.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().args(["--listen", "127.0.0.1:0", "--no-self-scrape"]);
        command.arg("--data-dir").arg(self.data_dir()).args(["--shutdown-timeout", self.shutdown_timeout]);
        command.args(arguments);
        command
    }

    /// Starts a node, and doesn't wait for anything.
    pub fn start(&self, arguments: &[&str]) -> NodeProcess {
        self.start_as(self.command(arguments))
    }

    /// Likewise one that may have so many descriptors.
    pub fn start_with_descriptors(&self, descriptors_max: usize, arguments: &[&str]) -> NodeProcess {
        let node = self.command(arguments);
        let mut shell = Command::new("/bin/sh");
        shell.env_clear().args(["-c", "ulimit -n $0 && exec \"$@\"", &descriptors_max.to_string()]);
        shell.arg(node.get_program()).args(node.get_args());
        self.start_as(shell)
    }

    fn start_as(&self, command: Command) -> NodeProcess {
        NodeProcess(Process::start(command, self.told()))
    }

    /// Starts a node and waits until it takes writes.
    pub fn start_ready(&self, arguments: &[&str]) -> NodeProcess {
        let mut node = self.start(arguments);
        node.wait_until_ready();
        node
    }

    /// Runs a node that is to end by itself: its exit code, and all that it logged.
    pub fn run(&self, arguments: &[&str]) -> (i32, String) {
        // A file of its own: another node may be running.
        let told = self.place.path().join("told-by-another");
        let mut node = NodeProcess(Process::start(self.command(arguments), told));
        let code = node.wait().code().expect("it ended by itself");
        (code, node.told())
    }

    /// Runs `silverback wal` on the data directory: its exit code, what it says and what it complains
    /// about.
    pub fn look_at_logs(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(&self.program);
        let Output { status, stdout, stderr } =
            command.env_clear().arg("wal").args(arguments).arg(self.data_dir()).output().unwrap();
        let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
        (status.code().unwrap(), stdout, stderr)
    }
}

/// A running node; dropping it kills it.
#[derive(Debug)]
pub struct NodeProcess(Process);

impl NodeProcess {
    /// What it logged so far.
    pub fn told(&self) -> String {
        self.0.told()
    }

    /// Waits until a look at the node finds something. Fails where it ends before.
    pub fn wait_until<T>(&mut self, what: &str, look: impl FnMut(&Process) -> Option<T>) -> T {
        self.0.wait_until(what, look)
    }

    /// Where it listens, read from its log.
    pub fn address(&mut self) -> SocketAddr {
        self.0.address()
    }

    /// Waits until it accepts connections.
    pub fn wait_until_listening(&mut self) -> SocketAddr {
        let address = self.address();
        self.wait_until("connection", |_| TcpStream::connect(address).ok());
        address
    }

    /// Waits until it takes writes.
    pub fn wait_until_ready(&mut self) {
        let address = self.wait_until_listening();
        self.wait_until("readiness", |_| {
            let answer = get(address, "/-/ready").ok()?;
            (answer.status == 200).then_some(())
        });
    }

    /// The answer to a GET.
    pub fn get(&mut self, path: &str) -> Answer {
        get(self.address(), path).unwrap()
    }

    /// The answer to a POST.
    pub fn post(&mut self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        ask(self.address(), "POST", path, headers, body).unwrap()
    }

    /// The most resident memory that it ever had, in bytes.
    pub fn peak_bytes(&self) -> usize {
        self.0.status_bytes("VmHWM:")
    }

    /// Ends it as a power cut would, as far as a process can tell.
    pub fn kill(self) {
        self.0.kill();
    }

    /// Tells it to end, and waits until it has.
    pub fn stop(mut self) {
        self.tell_to_end();
        assert_eq!(self.wait().code(), Some(0), "{}", self.told());
    }

    /// The same: all that it logged.
    pub fn stop_told(mut self) -> String {
        self.tell_to_end();
        assert_eq!(self.wait().code(), Some(0), "{}", self.told());
        self.told()
    }

    fn tell_to_end(&self) {
        self.0.signal(15);
    }

    /// Waits until it has ended by itself, or takes writes and ends when it is asked to.
    pub fn see_it_end(mut self) {
        let waiting = Waiting::begin();
        while self.0.ended().is_none() {
            let told = self.told();
            let address = told.split_once("listen=[").and_then(|(_, rest)| rest.split_once(']'));
            let ready = address.map(|(address, _)| get(address.parse().unwrap(), "/-/ready"));
            if matches!(ready, Some(Ok(answer)) if answer.status == 200) {
                self.tell_to_end();
                break;
            }
            waiting.again(|| format!("neither ready nor ended:\n{told}"));
        }
        self.wait();
    }

    /// The highest descriptor of its sockets.
    pub fn socket_max(&self) -> usize {
        let open = fs::read_dir(format!("/proc/{}/fd", self.0.id())).unwrap();
        let paths = open.map(|entry| entry.unwrap().path());
        // One that was closed meanwhile is none.
        let is_socket = |path: &PathBuf| {
            fs::read_link(path).is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
        };
        let number = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().parse().unwrap();
        paths.filter(is_socket).map(number).max().unwrap()
    }

    fn wait(&mut self) -> ExitStatus {
        self.0.wait()
    }
}

/// The answer to a GET; an error where the node ends meanwhile.
pub fn get(address: SocketAddr, path: &str) -> io::Result<Answer> {
    ask(address, "GET", path, &[], b"")
}

fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Answer> {
    let mut stream = connect(address)?;
    send(&mut stream, method, path, headers, body);
    try_read_answer(&mut BufReader::new(stream))
}

/// A connection that gives up after a while.
pub fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TEST_TIMEOUT))?;
    stream.set_write_timeout(Some(TEST_TIMEOUT))?;
    Ok(stream)
}

/// The names in a directory that end so, ascending.
pub fn names(dir: &Path, suffix: &str) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.ends_with(suffix)).collect();
    names.sort();
    names
}
