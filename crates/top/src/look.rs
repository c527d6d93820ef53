//! What is asked of an instance at one time.

use std::time::Instant;

use control::application::{METRICS, Offered};
use control::socket::{Client, ClientError, Code, Counters, Refusal, Request, Status, TableInfo};
use serde_json::Value as Json;

/// A query of a controller whose answer can be shown.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Topic {
    /// The controller.
    pub controller: String,
    /// Its query, which changes nothing and needs no arguments.
    pub query: String,
}

/// What each view needs.
#[derive(Clone, Debug)]
pub struct Look {
    /// When the counters were read.
    pub at: Instant,
    /// What runs.
    pub status: Status,
    /// What was counted since the start.
    pub counters: Counters,
    /// What controllers can be asked.
    pub topics: Vec<Topic>,
}

/// What one view needs beside that.
#[derive(Clone, Debug, PartialEq)]
pub enum Detail {
    /// The tables. Entries of arrays are counted for it, so they are not asked for without need.
    Tables(Vec<TableInfo>),
    /// What a controller answers, or why it does not.
    Answer(Topic, Result<Json, String>),
}

/// Asks one instance, and remembers what its controllers can be asked.
pub struct Watched {
    client: Client,
    offered: Vec<Offered>,
    topics: Vec<Topic>,
}

impl Watched {
    /// An instance that was just connected to.
    pub fn new(client: Client) -> Self {
        Watched { client, offered: Vec::new(), topics: Vec::new() }
    }

    /// Looks at what each view needs.
    pub fn look(&mut self) -> Result<Look, ClientError> {
        let offered: Vec<Offered> = self.client.ask(&Request::Queries)?;
        if offered != self.offered {
            self.topics = self.answered(&offered)?;
            self.offered = offered;
        }
        let status = self.client.ask(&Request::Status)?;
        let begin = Instant::now();
        let counters = self.client.ask(&Request::Counters)?;
        // They were read some time between.
        let at = begin + begin.elapsed() / 2;
        Ok(Look { at, status, counters, topics: self.topics.clone() })
    }

    /// Of the queries that change nothing those that are answered without arguments. Nothing else tells them apart.
    fn answered(&mut self, offered: &[Offered]) -> Result<Vec<Topic>, ClientError> {
        let mut topics = Vec::new();
        for own in offered.iter().filter(|own| !own.changes && own.query != METRICS) {
            let topic = Topic { controller: own.controller.clone(), query: own.query.clone() };
            match self.query(&topic) {
                Err(ClientError::Refused(Refusal { code: Code::BadValue, .. })) => {}
                // One that is busy may answer later.
                Ok(_) | Err(ClientError::Refused(_)) => topics.push(topic),
                Err(error) => return Err(error),
            }
        }
        Ok(topics)
    }

    fn query(&mut self, topic: &Topic) -> Result<Json, ClientError> {
        let Topic { controller, query } = topic.clone();
        self.client.ask(&Request::Query { controller, query, with: Json::Null })
    }

    /// Asks for the tables.
    pub fn tables(&mut self) -> Result<Detail, ClientError> {
        Ok(Detail::Tables(self.client.ask(&Request::Tables)?))
    }

    /// Asks a controller.
    pub fn answer(&mut self, topic: &Topic) -> Result<Detail, ClientError> {
        match self.query(topic) {
            Ok(answer) => Ok(Detail::Answer(topic.clone(), Ok(answer))),
            Err(ClientError::Refused(refusal)) => Ok(Detail::Answer(topic.clone(), Err(refusal.message))),
            Err(error) => Err(error),
        }
    }
}
