//! What can go wrong in a lab.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use crate::command::Output;

/// The result of a lab operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a lab operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel did not let this process have a network or user namespace.
    #[error(
        "cannot create a {kind} namespace: {source}. Run as root, or under `unshare --user --map-root-user --net`; \
         where that is refused too, see user.max_user_namespaces and kernel.apparmor_restrict_unprivileged_userns"
    )]
    Namespace {
        /// `network` or `user`.
        kind: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A system call or file access failed.
    #[error("{what}: {source}")]
    System {
        /// What was being done, with the names concerned.
        what: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A program is not installed.
    #[error("`{program}` is not installed; `tools/setup test` installs what the lab needs")]
    NotInstalled {
        /// The program that was looked for.
        program: String,
    },
    /// A program did not end within its time limit and was killed, or did not say what was waited for.
    #[error("[{namespace}] `{command}`: not within {limit:?}: {awaited}\n{output}")]
    Timeout {
        /// Label of the namespace.
        namespace: String,
        /// The command line.
        command: String,
        /// What was waited for.
        awaited: String,
        /// The time limit.
        limit: Duration,
        /// What it had printed by then.
        output: String,
    },
    /// A program ended with a status other than 0.
    #[error("[{namespace}] `{command}`: {status}\n{output}")]
    Failed {
        /// Label of the namespace.
        namespace: String,
        /// The command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// What it had printed.
        output: String,
    },
    /// A name or value that the lab cannot use.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    /// A failed system call or file access; `source` is the kernel's answer.
    pub(crate) fn system(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Error::System { what: what.into(), source: source.into() }
    }

    /// A program that ended with a status other than 0.
    pub(crate) fn failed(namespace: &str, command: &str, output: &Output) -> Self {
        Error::Failed {
            namespace: namespace.to_owned(),
            command: command.to_owned(),
            status: output.status,
            output: output.both(),
        }
    }
}
