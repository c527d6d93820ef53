//! What the splicer has counted.

use control::application::metrics::{Family, MetricValue};
use serde_json::Value as Json;

use super::world::World;

/// A metric of the service, the one with this label.
pub fn metric(world: &mut World, name: &str, label: &str) -> u64 {
    numbers(world, name).into_iter().find(|(labels, _)| labels.iter().any(|own| own == label)).unwrap().1
}

/// The sum of a metric over all that have it.
pub fn total(world: &mut World, name: &str) -> u64 {
    numbers(world, name).into_iter().map(|(_, number)| number).sum()
}

/// All of a family, each with its labels.
fn numbers(world: &mut World, name: &str) -> Vec<(Vec<String>, u64)> {
    let families = world.splicer.query("metrics", &Json::Null).unwrap();
    let families: Vec<Family> = serde_json::from_value(families).unwrap();
    let family = families.into_iter().find(|family| family.name == name).unwrap();
    let number = |value| match value {
        MetricValue::Number(number) => number,
        other => panic!("{other:?}"),
    };
    let samples = family.samples.into_iter();
    samples.map(|sample| (sample.labels.into_values().collect(), number(sample.value))).collect()
}
