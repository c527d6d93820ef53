//! Members of pools that are not listed, but found: in etcd, or among the endpoints of a Kubernetes service.
//!
//! | file | what |
//! |---|---|
//! | `found` | which of what is found are members, and why others are not |
//! | `etcd`, `etcd_value` | what etcd is asked, and what it says: texts |
//! | `kubernetes` | what the API server is asked, and what it says: texts |
//! | `lines` | texts by lines, of pieces as they come |
//! | `client` | requests by HTTP and TLS |
//! | `report` | what the proxy is told |
//! | `attempts` | pauses between attempts to reach them |
//! | `follow_etcd`, `follow_kubernetes` | lists and watches |
//! | `registration` | this proxy's own key in etcd |
//! | `watchers` | the thread in which they run: what they read delays nobody's packets |

mod attempts;
mod client;
pub mod etcd;
mod etcd_value;
mod follow_etcd;
mod follow_kubernetes;
pub mod found;
pub mod kubernetes;
pub mod lines;
mod registration;
pub mod report;
pub mod watchers;
