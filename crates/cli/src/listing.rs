//! Commands that list what a controller answers to a query.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::failure::Failure;
use crate::remote::Remote;
use crate::report::table;
use crate::watch::Watch;

/// Arguments of a command that takes none of its own.
#[derive(clap::Args)]
pub struct Listing {
    /// How often it is shown.
    #[command(flatten)]
    pub watch: Watch,
    /// Which instance is asked.
    #[command(flatten)]
    pub remote: Remote,
}

impl Listing {
    /// Asks a controller a query, once or again and again, and shows each item of its answer as some rows below these
    /// columns.
    ///
    /// # Errors
    /// There is no answer, or another one.
    pub fn show<T: DeserializeOwned + Serialize>(
        &self,
        controller: &str,
        query: &str,
        columns: &[&str],
        rows: impl Fn(&T) -> Vec<Vec<String>>,
    ) -> Result<(), Failure> {
        self.watch.run(|| {
            let all: Vec<T> = self.remote.query(controller, query, &Json::Null)?;
            self.watch.show(self.remote.json, &all, |all| {
                let mut out = String::new();
                table(&mut out, columns, all.iter().flat_map(&rows).collect());
                out
            })
        })
    }
}
