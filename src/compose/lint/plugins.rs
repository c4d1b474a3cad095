//! Which plugins a release of the scheduler has, and which it refuses to be told to use.

use crate::compose::version::Version;

/// A plugin, and the first and last minor release whose registry holds it.
const REGISTRY: [(&str, u32, u32); 34] = [
    ("AzureDiskLimits", 0, 31),
    ("CinderLimits", 0, 31),
    ("DefaultBinder", 0, u32::MAX),
    ("DefaultPreemption", 0, u32::MAX),
    ("DynamicResources", 26, u32::MAX),
    ("EBSLimits", 0, 31),
    ("GCEPDLimits", 0, 31),
    ("GangScheduling", 35, u32::MAX),
    ("ImageLocality", 0, u32::MAX),
    ("InterPodAffinity", 0, u32::MAX),
    ("NodeAffinity", 0, u32::MAX),
    ("NodeDeclaredFeatures", 35, u32::MAX),
    ("NodeLabel", 0, 22),
    ("NodeName", 0, u32::MAX),
    ("NodePorts", 0, u32::MAX),
    ("NodePreferAvoidPods", 0, 22),
    ("NodeResourcesBalancedAllocation", 0, u32::MAX),
    ("NodeResourcesFit", 0, u32::MAX),
    ("NodeResourcesLeastAllocated", 0, 22),
    ("NodeResourcesMostAllocated", 0, 22),
    ("NodeUnschedulable", 0, u32::MAX),
    ("NodeVolumeLimits", 0, u32::MAX),
    ("PodGroupPodsCount", 36, u32::MAX),
    ("PodTopologySpread", 0, u32::MAX),
    ("PrioritySort", 0, u32::MAX),
    ("RequestedToCapacityRatio", 0, 22),
    ("SchedulingGates", 26, u32::MAX),
    ("SelectorSpread", 0, 28),
    ("ServiceAffinity", 0, 22),
    ("TaintToleration", 0, u32::MAX),
    ("TopologyPlacementGenerator", 36, u32::MAX),
    ("VolumeBinding", 0, u32::MAX),
    ("VolumeRestrictions", 0, u32::MAX),
    ("VolumeZone", 0, u32::MAX),
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
    REGISTRY.iter().any(|(own, first, last)| *own == name && version.is_within(*first, *last))
}

/// Whether this release refuses the plugin in a configuration of this version.
pub(super) fn is_refused(name: &str, config_version: &str, version: Version) -> bool {
    REFUSED
        .iter()
        .any(|(own, config, first, last)| *own == name && *config == config_version && version.is_within(*first, *last))
}
