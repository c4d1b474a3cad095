//! Which plugins a release of the scheduler has, and which it refuses to be told to use.

use crate::compose::version::Version;

/// A plugin, the first and last minor release whose registry holds it, and the points that it serves in any of them;
/// of plugins that went with 1.23 and 1.29 they are not known.
const REGISTRY: [(&str, u32, u32, &str); 34] = [
    ("AzureDiskLimits", 0, 31, "filter preFilter"),
    ("CinderLimits", 0, 31, "filter preFilter"),
    ("DefaultBinder", 0, u32::MAX, "bind"),
    ("DefaultPreemption", 0, u32::MAX, "postFilter preEnqueue"),
    (
        "DynamicResources",
        26,
        u32::MAX,
        "filter postBind postFilter preBind preEnqueue preFilter preScore reserve score",
    ),
    ("EBSLimits", 0, 31, "filter preFilter"),
    ("GCEPDLimits", 0, 31, "filter preFilter"),
    ("GangScheduling", 35, u32::MAX, "permit preEnqueue reserve"),
    ("ImageLocality", 0, u32::MAX, "score"),
    ("InterPodAffinity", 0, u32::MAX, "filter preFilter preScore score"),
    ("NodeAffinity", 0, u32::MAX, "filter preFilter preScore score"),
    ("NodeDeclaredFeatures", 35, u32::MAX, "filter preFilter"),
    ("NodeLabel", 0, 22, ""),
    ("NodeName", 0, u32::MAX, "filter"),
    ("NodePorts", 0, u32::MAX, "filter preFilter"),
    ("NodePreferAvoidPods", 0, 22, ""),
    ("NodeResourcesBalancedAllocation", 0, u32::MAX, "preScore score"),
    ("NodeResourcesFit", 0, u32::MAX, "filter placementScore preFilter preScore score"),
    ("NodeResourcesLeastAllocated", 0, 22, ""),
    ("NodeResourcesMostAllocated", 0, 22, ""),
    ("NodeUnschedulable", 0, u32::MAX, "filter"),
    ("NodeVolumeLimits", 0, u32::MAX, "filter preFilter"),
    ("PodGroupPodsCount", 36, u32::MAX, "placementScore"),
    ("PodTopologySpread", 0, u32::MAX, "filter preFilter preScore score"),
    ("PrioritySort", 0, u32::MAX, "queueSort"),
    ("RequestedToCapacityRatio", 0, 22, ""),
    ("SchedulingGates", 26, u32::MAX, "preEnqueue"),
    ("SelectorSpread", 0, 28, ""),
    ("ServiceAffinity", 0, 22, ""),
    ("TaintToleration", 0, u32::MAX, "filter preScore score"),
    ("TopologyPlacementGenerator", 36, u32::MAX, "placementGenerate"),
    ("VolumeBinding", 0, u32::MAX, "filter preBind preFilter preScore reserve score"),
    ("VolumeRestrictions", 0, u32::MAX, "filter preFilter"),
    ("VolumeZone", 0, u32::MAX, "filter preFilter"),
];

/// Plugins that a release still has but refuses in a configuration of this version: name, version, first and last minor.
const REFUSED: [(&str, &str, u32, u32); 11] = [
    ("AzureDiskLimits", "v1", 31, u32::MAX),
    ("CinderLimits", "v1", 31, u32::MAX),
    ("EBSLimits", "v1", 31, u32::MAX),
    ("GCEPDLimits", "v1", 31, u32::MAX),
    ("SelectorSpread", "v1", 25, 28),
    ("NodeLabel", "v1beta2", 22, 22),
    ("ServiceAffinity", "v1beta2", 22, 22),
    ("NodePreferAvoidPods", "v1beta2", 22, 22),
    ("NodeResourcesLeastAllocated", "v1beta2", 22, 22),
    ("NodeResourcesMostAllocated", "v1beta2", 22, 22),
    ("RequestedToCapacityRatio", "v1beta2", 22, 22),
];

/// Plugins whose arguments have a type of their own, and since which minor release: they must be a mapping.
const WITH_ARGS: [(&str, u32); 8] = [
    ("DefaultPreemption", 0),
    ("DynamicResources", 34),
    ("InterPodAffinity", 0),
    ("NodeAffinity", 0),
    ("NodeResourcesBalancedAllocation", 0),
    ("NodeResourcesFit", 0),
    ("PodTopologySpread", 0),
    ("VolumeBinding", 0),
];

/// Whether the arguments of the plugin must be a mapping.
pub(super) fn has_args(name: &str, version: Version) -> bool {
    WITH_ARGS.iter().any(|(own, first)| *own == name && version.is_within(*first, u32::MAX))
}

/// Whether this release has the plugin.
pub(super) fn exists(name: &str, version: Version) -> bool {
    REGISTRY.iter().any(|(own, first, last, _)| *own == name && version.is_within(*first, *last))
}

/// Whether any release has the plugin. The others come with images of other people.
pub(crate) fn is_upstream(name: &str) -> bool {
    REGISTRY.iter().any(|(own, ..)| *own == name)
}

/// The plugin of this release that a misspelled name may mean: the same but for case and up to two letters.
pub(super) fn meant(name: &str, version: Version) -> Option<&'static str> {
    let there = REGISTRY.iter().filter(|(_, first, last, _)| version.is_within(*first, *last));
    let distances = there.map(|(own, ..)| (distance(&own.to_ascii_lowercase(), &name.to_ascii_lowercase()), *own));
    distances.filter(|(distance, _)| *distance <= 2).min().map(|(_, own)| own)
}

/// How many letters must be added, taken out or changed to make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.bytes().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, other) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(letter != other);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Whether the plugin serves a point, as far as that is known.
pub(super) fn serves(name: &str, point: &str) -> bool {
    let points = REGISTRY.iter().find(|(own, ..)| *own == name).map_or("", |(.., points)| points);
    point == "multiPoint" || points.is_empty() || points.split(' ').any(|own| own == point)
}

/// Whether this release refuses the plugin in a configuration of this version.
pub(super) fn is_refused(name: &str, config_version: &str, version: Version) -> bool {
    REFUSED
        .iter()
        .any(|(own, config, first, last)| *own == name && *config == config_version && version.is_within(*first, *last))
}
