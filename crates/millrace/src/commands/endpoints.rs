//! Where an instance answers by HTTP, figures for monitoring systems, the web page and the API; and where it sends what
//! monitoring samples.

use std::sync::{Arc, Weak};

use collectors::{ipfix, sflow};
use control::config::{Config, Metrics, Web, WebAddress};
use control::socket::{IpfixState, Overview, Reloaded, Service, SflowState};
use figures::exporter::{self, Exporter, Look};

/// What the command line says about it, which comes before the configuration.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Where monitoring systems read what is counted.
    pub metrics: Option<Metrics>,
    /// Where the web page and the API are.
    pub web: Option<WebAddress>,
}

/// All of them.
#[derive(Debug)]
pub struct Endpoints {
    exporter: Exporter,
    web: web::Server,
    /// Whose agent of sFlow it is.
    overview: Arc<Overview>,
}

/// What is to be in force.
pub struct Bound {
    metrics: exporter::Bound,
    web: endpoint::Bound<web::Web>,
    sflow: Option<sflow::Settings>,
    ipfix: Option<ipfix::Settings>,
}

impl Given {
    fn metrics<'a>(&'a self, config: &'a Config) -> Option<&'a Metrics> {
        self.metrics.as_ref().or(config.metrics.as_ref())
    }

    fn web(&self, config: &Config) -> Result<Option<web::Settings>, String> {
        web::load(Web::at(self.web, config.web.as_ref())?.as_ref())
    }

    /// Takes the addresses of an instance that does not run yet. The error: which can't be had, and why.
    pub fn bind(&self, config: &Config) -> Result<Bound, String> {
        let (metrics, web) = (exporter::bind(self.metrics(config))?, web::bind(self.web(config)?)?);
        Ok(Bound { metrics, web, sflow: config.sflow.clone(), ipfix: config.ipfix.clone() })
    }
}

impl Endpoints {
    /// Of an instance that is looked at in this way, and asked by its service.
    pub fn new(overview: Arc<Overview>, look: Look, service: Weak<Service>) -> Arc<Endpoints> {
        Arc::new(Endpoints { exporter: exporter::exporter(look), web: web::server(service), overview })
    }

    /// Takes the addresses of another configuration; nothing has changed yet. The error: which can't be had, and why.
    pub fn bind(&self, given: &Given, config: &Config) -> Result<Bound, String> {
        let metrics = self.exporter.bind(given.metrics(config).cloned())?;
        let web = self.web.bind(given.web(config)?)?;
        Ok(Bound { metrics, web, sflow: config.sflow.clone(), ipfix: config.ipfix.clone() })
    }

    /// Puts in force what an instance starts with.
    pub fn start(&self, bound: Bound) -> std::io::Result<()> {
        self.exporter.put(bound.metrics)?;
        self.web.put(bound.web)?;
        self.overview.sflow().put(bound.sflow)?;
        self.overview.ipfix().put(bound.ipfix)?;
        Ok(())
    }

    /// Puts in force what a reload has bound.
    pub fn put(&self, bound: Bound, reloaded: &mut Reloaded) {
        let mut told = |name: &str, put: std::io::Result<bool>, place: Option<String>| match put {
            Ok(changed) => changed.then(|| place.unwrap_or_else(|| "nowhere".to_owned())),
            Err(error) => {
                reloaded.warnings.push(format!("{name}: {error}"));
                None
            }
        };
        reloaded.metrics = told("metrics", self.exporter.put(bound.metrics), self.exporter.url());
        reloaded.web = told("web", self.web.put(bound.web), self.web.url());
        reloaded.sflow = told("sflow", self.overview.sflow().put(bound.sflow), self.sflow());
        reloaded.ipfix = told("ipfix", self.overview.ipfix().put(bound.ipfix), self.ipfix());
    }

    /// Where they are, a line each.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let of = |name: &str, url: Option<String>| url.map(|url| format!("{name}: {url}"));
        let answers = [of("metrics", self.exporter.url()), of("web", self.web.url())];
        answers.into_iter().chain([of("sflow", self.sflow()), of("ipfix", self.ipfix())]).flatten()
    }

    /// Where samples are sent, and how many.
    fn sflow(&self) -> Option<String> {
        self.overview.sflow().state().map(|state| SflowState::from(state).to_string())
    }

    /// Where flows are sent.
    fn ipfix(&self) -> Option<String> {
        self.overview.ipfix().state().map(|state| IpfixState::from(state).to_string())
    }

    /// Answers and sends nothing more.
    pub fn stop(&self) {
        self.overview.sflow().stop();
        self.overview.ipfix().stop();
        self.exporter.stop();
        self.web.stop();
    }
}
