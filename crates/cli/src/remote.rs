//! What the subcommands share that ask a running instance.

use std::path::PathBuf;

use control::socket::{Client, ClientError, Code, Request, SocketDirectory, SocketNameError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::failure::Failure;
use crate::say;

/// Which instance is meant.
#[derive(clap::Args)]
pub struct Place {
    /// Name of the instance; not needed where only one is running
    #[arg(long, value_name = "NAME", conflicts_with = "socket")]
    instance: Option<String>,
    /// Socket of the instance, where it is not the one that its name says
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// Which instance to ask, and how to show the answer.
#[derive(clap::Args)]
pub struct Remote {
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl Place {
    /// Its socket.
    ///
    /// # Errors
    /// None runs, or several do and none is named.
    pub fn path(&self) -> Result<PathBuf, Failure> {
        let path = match (&self.socket, &self.instance) {
            (Some(path), _) => Ok(path.clone()),
            (None, Some(name)) => SocketDirectory::of_user().socket(name),
            (None, None) => SocketDirectory::of_user().only(),
        };
        path.map_err(no_place)
    }

    /// The sockets of the instance meant, or of all that run where none is named; there may be none.
    ///
    /// # Errors
    /// The name is none, or the directory of sockets can't be read.
    pub fn paths(&self) -> Result<Vec<PathBuf>, Failure> {
        if self.instance.is_some() || self.socket.is_some() {
            return Ok(vec![self.path()?]);
        }
        let directory = SocketDirectory::of_user();
        let names = directory.running().map_err(no_place)?;
        names.iter().map(|name| directory.socket(name).map_err(no_place)).collect()
    }
}

impl Remote {
    /// Connects to the instance meant.
    pub fn connect(&self) -> Result<Client, Failure> {
        Client::connect(&self.place.path()?).map_err(failed)
    }

    /// Asks a controller of the instance meant.
    pub fn query<T: DeserializeOwned>(
        &self,
        controller: &str,
        query: &str,
        with: &impl Serialize,
    ) -> Result<T, Failure> {
        let with = serde_json::to_value(with).map_err(Failure::refused)?;
        let request = Request::Query { controller: controller.into(), query: query.into(), with };
        self.connect()?.ask(&request).map_err(failed)
    }

    /// Connects to the instance meant, or to all that run where none is named.
    pub fn connect_all(&self) -> Result<Vec<Client>, Failure> {
        let paths = self.place.paths()?;
        if paths.is_empty() {
            return Err(no_place(SocketNameError::None(SocketDirectory::of_user().path().to_owned())));
        }
        paths.iter().map(|path| Client::connect(path).map_err(failed)).collect()
    }
}

fn no_place(error: SocketNameError) -> Failure {
    match error {
        SocketNameError::Name(_) | SocketNameError::Several(_) => Failure::wrong(format!("error: {error}")),
        SocketNameError::None(_) | SocketNameError::Directory { .. } => Failure::refused(error),
    }
}

/// The exit status says whether the request was wrong, or the instance could not serve it.
pub fn failed(error: ClientError) -> Failure {
    match &error {
        ClientError::Refused(refusal) if !matches!(refusal.code, Code::TableFull | Code::Busy) => {
            Failure::wrong(format!("error: {error}"))
        }
        _ => Failure::refused(error),
    }
}

/// Prints an answer as JSON.
pub fn print_json(answer: &impl Serialize) {
    // Answers are plain data with text as keys, so this can't fail.
    say!("{}", serde_json::to_string_pretty(answer).expect("an answer is JSON"));
}
