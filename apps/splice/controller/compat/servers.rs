//! Web servers with the same files, at all addresses of the example.

use lab::{Running, Signal};

use crate::network::{PATIENCE, SERVERS, Splice, must};
use crate::process::Scratch;

/// Files in a folder that is removed with them.
pub struct Files {
    scratch: Scratch,
    /// Their lengths in bytes, by which they are called.
    pub sizes: Vec<usize>,
}

impl Files {
    /// Files of these lengths, and what the checks ask for.
    pub fn new(sizes: &[usize]) -> Files {
        let files = Files { scratch: Scratch::new(), sizes: sizes.to_vec() };
        std::fs::create_dir_all(files.root() + "/images").unwrap();
        files.scratch.write("www/index.html", "here I am\n");
        for size in sizes {
            std::fs::write(files.path(*size), Files::bytes(*size)).unwrap();
        }
        files
    }

    /// The folder.
    pub fn root(&self) -> String {
        self.scratch.path("www")
    }

    /// A file beside it.
    pub fn beside(&self, name: &str) -> String {
        self.scratch.path(name)
    }

    /// Writes a file beside it; its path.
    pub fn write(&self, name: &str, content: &str) -> String {
        self.scratch.write(name, content)
    }

    /// The file of a length.
    pub fn path(&self, size: usize) -> String {
        format!("{}/{size}", self.root())
    }

    /// Its content: no two stretches are alike.
    pub fn bytes(size: usize) -> Vec<u8> {
        (0..size.div_ceil(8) as u64)
            .flat_map(|n| (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes())
            .take(size)
            .collect()
    }
}

/// Running servers.
pub struct Server(Vec<Running>);

impl Server {
    /// Ends them.
    pub fn stop(self) {
        for mut server in self.0 {
            must(server.signal(Signal::SIGTERM));
            must(server.wait(PATIENCE));
        }
    }
}

/// nginx in the foreground. It closes no connection for the number of its requests: a client that another one's
/// requests came before would be told so in the middle of its own, which httperf takes for an error.
pub fn nginx(splice: &Splice, files: &Files) -> Server {
    let listen: String = SERVERS.iter().map(|address| format!("listen {address}; ")).collect();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {}; ", files.beside(kind)))
        .concat();
    let text = format!(
        "daemon off; user root; worker_processes 1; pid {}; error_log stderr crit;\n\
         events {{ worker_connections 1000; }}\n\
         http {{ access_log off; keepalive_requests 1000000; {temporary} server {{ {listen} root {}; }} }}\n",
        files.beside("nginx.pid"),
        files.root(),
    );
    let config = files.write("nginx.conf", &text);
    Server(vec![must(splice.servers.command("nginx").args(["-e", "stderr", "-c", &config]).spawn())])
}

/// Apache in the foreground.
pub fn apache(splice: &Splice, files: &Files) -> Server {
    let listen: String = SERVERS.iter().map(|address| format!("Listen {address}\n")).collect();
    let modules: String = ["mpm_event", "authz_core", "dir"]
        .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"))
        .concat();
    let root = files.root();
    let text = format!(
        "ServerRoot {root}\nServerName test\nDefaultRuntimeDir {}\nPidFile {}\nErrorLog /dev/stderr\nLogLevel crit\n{modules}{listen}\
         DocumentRoot {root}\nMaxKeepAliveRequests 0\n<Directory {root}>\nRequire all granted\n</Directory>\n",
        files.beside("apache"),
        files.beside("apache.pid"),
    );
    std::fs::create_dir_all(files.beside("apache")).unwrap();
    let config = files.write("apache.conf", &text);
    Server(vec![must(splice.servers.command("apache2").args(["-DFOREGROUND", "-f", &config]).spawn())])
}

/// Python's, one for each address, in HTTP/1.1.
pub fn python(splice: &Splice, files: &Files) -> Server {
    let start = |address: &&str| {
        let (host, port) = address.rsplit_once(':').unwrap();
        let host = host.trim_matches(['[', ']']);
        let mut command = splice.servers.command("python3");
        let more = ["-m", "http.server", "--protocol", "HTTP/1.1", "--bind", host, "--directory", &files.root(), port];
        command = command.args(more);
        must(command.spawn())
    };
    Server(SERVERS.iter().map(start).collect())
}
