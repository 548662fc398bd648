//! Hardware profiles as TOML documents.

use super::engines::{Engines, Work};
use super::hardware::{Attachment, Hardware, HopRule, LocalMoves, Network, SwitchKind, WiringRule};
use super::quantity::{BANDWIDTH, BYTES, FLOPS, Kind, TIME};
use crate::characters;
use crate::escape::toml_string;
use crate::fusion::Fusion;
use crate::mesh::Wiring;
use crate::units::{Bytes, Rate};
use itertools::Itertools;
use miette::{Diagnostic, SourceSpan};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

/// The profiles that come with the compiler, by name.
pub(super) const SHIPPED: [(&str, &str); 12] = [
    ("tpu_v3", include_str!("profiles/tpu_v3.toml")),
    ("tpu_v4p", include_str!("profiles/tpu_v4p.toml")),
    ("tpu_v5p", include_str!("profiles/tpu_v5p.toml")),
    ("tpu_v5e", include_str!("profiles/tpu_v5e.toml")),
    ("tpu_v6e", include_str!("profiles/tpu_v6e.toml")),
    ("tpu7x", include_str!("profiles/tpu7x.toml")),
    ("a100", include_str!("profiles/a100.toml")),
    ("h100", include_str!("profiles/h100.toml")),
    ("h200", include_str!("profiles/h200.toml")),
    ("b200", include_str!("profiles/b200.toml")),
    ("gb200_nvl72", include_str!("profiles/gb200_nvl72.toml")),
    ("furiosa", include_str!("profiles/furiosa.toml")),
];

/// A text that is no hardware profile.
#[derive(Clone, Debug, PartialEq, Eq, Error, Diagnostic)]
#[error("{message}")]
#[diagnostic(code("hardware-profile"), help("`shardc hardware tpu_v5e` prints a complete profile to start from"))]
pub struct ProfileError {
    /// What is wrong, in lower case.
    pub message: String,
    /// Where in the profile's text, if it is one place.
    #[label("here")]
    pub span: Option<SourceSpan>,
}

/// A profile as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(deserialize_with = "read_name")]
    name: String,
    #[serde(default)]
    description: String,
    #[serde(deserialize_with = "read_flops")]
    bf16_flops: Rate,
    #[serde(deserialize_with = "read_flops")]
    int8_flops: Rate,
    #[serde(deserialize_with = "read_bytes")]
    hbm_bytes: Bytes,
    #[serde(deserialize_with = "read_bandwidth")]
    hbm_bandwidth: Rate,
    network: NetworkDocument,
    #[serde(default)]
    beyond: Vec<NetworkDocument>,
    #[serde(default = "book_rule", deserialize_with = "read_hop_rule")]
    hop_rule: HopRule,
    #[serde(default = "book_moves", deserialize_with = "read_local_moves")]
    local_moves: LocalMoves,
    #[serde(default, deserialize_with = "read_limit")]
    broadcast_limit: Option<Bytes>,
    #[serde(default, deserialize_with = "read_fusion")]
    fusion: Fusion,
    #[serde(default, deserialize_with = "read_engines")]
    engines: Engines,
}

/// A network as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkDocument {
    #[serde(deserialize_with = "read_network_name")]
    name: String,
    #[serde(deserialize_with = "read_bandwidth")]
    one_way: Rate,
    #[serde(deserialize_with = "read_time")]
    hop_latency: u64,
    #[serde(default, deserialize_with = "read_time")]
    message_overhead: u64,
    #[serde(deserialize_with = "read_wiring")]
    wiring: WiringRule,
    #[serde(default = "plain_switch", deserialize_with = "read_switch")]
    switch: SwitchKind,
    #[serde(default = "each_device", deserialize_with = "read_attachment")]
    attached: Attachment,
}

impl From<NetworkDocument> for Network {
    fn from(document: NetworkDocument) -> Network {
        let NetworkDocument { name, one_way, hop_latency, message_overhead, wiring, switch, attached } = document;
        Network { name, one_way, hop_latency, message_overhead, wiring, switch, attached }
    }
}

/// Reads a profile; see [`Hardware::from_toml`].
pub(super) fn read(text: &str) -> Result<Hardware, ProfileError> {
    characters::check(text).map_err(|error| ProfileError { message: error.to_string(), span: Some(error.at) })?;
    let document: Document = toml::from_str(text).map_err(|error| ProfileError {
        message: error.message().trim_end().replace('\n', "; "),
        span: error.span().map(SourceSpan::from),
    })?;
    let hardware = Hardware {
        name: document.name,
        description: document.description,
        bf16_flops: document.bf16_flops,
        int8_flops: document.int8_flops,
        hbm_bytes: document.hbm_bytes,
        hbm_bandwidth: document.hbm_bandwidth,
        network: document.network.into(),
        beyond: document.beyond.into_iter().map(Network::from).collect(),
        hop_rule: document.hop_rule,
        local_moves: document.local_moves,
        broadcast_limit: document.broadcast_limit,
        fusion: document.fusion,
        engines: document.engines,
    };
    let twice = hardware.networks().map(|network| network.name.clone()).duplicates().next();
    match twice {
        Some(name) => Err(ProfileError { message: format!("two networks are called `{name}`"), span: None }),
        None => Ok(hardware),
    }
}

/// Writes a profile that [`read`] understands.
pub(super) fn write(hardware: &Hardware) -> String {
    let fields = [
        ("name", toml_string(&hardware.name)),
        ("description", toml_string(&hardware.description)),
        ("bf16_flops", hardware.bf16_flops.per_second().to_string()),
        ("int8_flops", hardware.int8_flops.per_second().to_string()),
        ("hbm_bytes", hardware.hbm_bytes.0.to_string()),
        ("hbm_bandwidth", hardware.hbm_bandwidth.per_second().to_string()),
        ("hop_rule", toml_string(hop_rule_text(hardware.hop_rule))),
        ("local_moves", toml_string(local_moves_text(hardware.local_moves))),
        ("fusion", toml_string(hardware.fusion.name())),
    ];
    let limit = hardware.broadcast_limit.map(|limit| ("broadcast_limit", limit.0.to_string()));
    let fields: Vec<_> = fields.into_iter().chain(limit).collect();
    let beyond = hardware.beyond.iter().map(|network| format!("\n[[beyond]]\n{}", network_text(network)));
    let (fields, network) = (lines(&fields), network_text(&hardware.network));
    let engines = engines_text(&hardware.engines);
    format!("{fields}{engines}\n[network]\n{network}{}", beyond.collect::<String>())
}

/// A profile as a JSON document, in base units.
#[derive(Clone, Debug, Serialize)]
pub struct ProfileDocument {
    name: String,
    description: String,
    /// Operations a second on bf16.
    bf16_flops: u64,
    /// Operations a second on int8.
    int8_flops: u64,
    /// Bytes of memory.
    hbm_bytes: u64,
    /// Bytes a second from and to memory.
    hbm_bandwidth: u64,
    hop_rule: &'static str,
    local_moves: &'static str,
    /// Which local computations run as one kernel.
    fusion: &'static str,
    /// Bytes up to which a broadcast is taken, where there is such a limit.
    broadcast_limit: Option<u64>,
    engines: Vec<EngineDocument>,
    /// The network inside first.
    networks: Vec<NetworkFigures>,
}

/// An engine and what it runs.
#[derive(Clone, Debug, Serialize)]
struct EngineDocument {
    name: String,
    runs: Vec<&'static str>,
}

/// A network in base units.
#[derive(Clone, Debug, Serialize)]
struct NetworkFigures {
    name: String,
    /// Bytes a second over one link, one way.
    one_way: u64,
    hop_latency_ps: u64,
    message_overhead_ps: u64,
    wiring: String,
    switch: &'static str,
    attached: &'static str,
}

/// The document of a profile.
pub(super) fn document(hardware: &Hardware) -> ProfileDocument {
    let engines = &hardware.engines;
    let engine = |(id, name): (_, &String)| EngineDocument {
        name: name.clone(),
        runs: engines.runs(id).map(Work::word).collect(),
    };
    let network = |network: &Network| NetworkFigures {
        name: network.name.clone(),
        one_way: network.one_way.per_second(),
        hop_latency_ps: network.hop_latency,
        message_overhead_ps: network.message_overhead,
        wiring: wiring_text(network.wiring),
        switch: switch_text(network.switch),
        attached: attachment_text(network.attached),
    };
    ProfileDocument {
        name: hardware.name.clone(),
        description: hardware.description.clone(),
        bf16_flops: hardware.bf16_flops.per_second(),
        int8_flops: hardware.int8_flops.per_second(),
        hbm_bytes: hardware.hbm_bytes.0,
        hbm_bandwidth: hardware.hbm_bandwidth.per_second(),
        hop_rule: hop_rule_text(hardware.hop_rule),
        local_moves: local_moves_text(hardware.local_moves),
        fusion: hardware.fusion.name(),
        broadcast_limit: hardware.broadcast_limit.map(|limit| limit.0),
        engines: engines.ids().zip(engines.names()).map(engine).collect(),
        networks: hardware.networks().map(network).collect(),
    }
}

/// Nothing where a device has the one engine that every profile has.
fn engines_text(engines: &Engines) -> String {
    if *engines == Engines::default() {
        return String::new();
    }
    let runs = |engine| engines.runs(engine).map(|work| toml_string(work.word())).join(", ");
    let line = |(engine, name)| format!("{name} = [{}]\n", runs(engine));
    format!("\n[engines]\n{}", engines.ids().zip(engines.names()).map(line).collect::<String>())
}

fn network_text(network: &Network) -> String {
    lines(&[
        ("name", toml_string(&network.name)),
        ("one_way", network.one_way.per_second().to_string()),
        ("hop_latency", toml_string(&time_text(network.hop_latency))),
        ("message_overhead", toml_string(&time_text(network.message_overhead))),
        ("wiring", toml_string(&wiring_text(network.wiring))),
        ("switch", toml_string(switch_text(network.switch))),
        ("attached", toml_string(attachment_text(network.attached))),
    ])
}

fn lines(fields: &[(&str, String)]) -> String {
    fields.iter().map(|(field, value)| format!("{field} = {value}\n")).collect()
}

/// As it can be written in `D: 4 over dcn`.
fn read_network_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    let begins = name.starts_with(|letter: char| letter.is_ascii_alphabetic());
    if !begins || !name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
        return Err(D::Error::custom(format!("the name `{name}` is not one word, such as \"dcn\"")));
    }
    Ok(name)
}

/// What runs as one kernel; the names are those of [`Fusion::name`].
fn read_fusion<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Fusion, D::Error> {
    let word = String::deserialize(deserializer)?;
    let known = || Fusion::ALL.map(|fusion| format!("\"{}\"", fusion.name())).join(", ");
    let found = Fusion::ALL.into_iter().find(|fusion| fusion.name() == word);
    found.ok_or_else(|| D::Error::custom(format!("the fusion is one of {}, not \"{word}\"", known())))
}

/// Named engines with what they run; those that are left out of a profile are one.
fn read_engines<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Engines, D::Error> {
    let written = BTreeMap::<String, Vec<String>>::deserialize(deserializer)?;
    let work = |word: &String| {
        let known = || Work::ALL.iter().map(|work| work.word()).join(", ");
        Work::from_word(word).ok_or_else(|| D::Error::custom(format!("engines run {}, not `{word}`", known())))
    };
    let mut engines = Vec::new();
    for (name, runs) in written {
        let is_word = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if name.is_empty() || !is_word {
            return Err(D::Error::custom(format!("the name `{name}` is not one word, such as \"main\"")));
        }
        engines.push((name, runs.iter().map(work).collect::<Result<_, _>>()?));
    }
    Engines::new(engines).map_err(D::Error::custom)
}

fn read_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    let is_word = |text: &str| text.chars().all(|letter| letter.is_alphanumeric() || "_-.".contains(letter));
    if name.is_empty() || !is_word(&name) {
        return Err(D::Error::custom(format!("the name `{name}` is not one word, such as \"tpu_v5e\"")));
    }
    Ok(name)
}

/// Below a thousand a second a byte would take so many ticks that large sizes could not be timed.
fn read_rate<'de, D: Deserializer<'de>>(kind: Kind, deserializer: D) -> Result<Rate, D::Error> {
    let per_second = kind.read(deserializer)?;
    let rate = Rate::new(per_second).filter(|_| per_second >= 1_000);
    rate.ok_or_else(|| D::Error::custom(format!("a rate of {per_second} a second is below 1000")))
}

fn read_flops<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
    read_rate(FLOPS, deserializer)
}

fn read_bandwidth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
    read_rate(BANDWIDTH, deserializer)
}

fn read_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    BYTES.read(deserializer).map(Bytes)
}

fn read_limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bytes>, D::Error> {
    read_bytes(deserializer).map(Some)
}

fn read_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    TIME.read(deserializer)
}

fn book_rule() -> HopRule {
    HopRule::Larger
}

fn book_moves() -> LocalMoves {
    LocalMoves::Free
}

fn read_hop_rule<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HopRule, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "max" => Ok(HopRule::Larger),
        "sum" => Ok(HopRule::Sum),
        other => Err(D::Error::custom(format!("the hop rule is \"max\" or \"sum\", not `{other}`"))),
    }
}

fn hop_rule_text(rule: HopRule) -> &'static str {
    match rule {
        HopRule::Larger => "max",
        HopRule::Sum => "sum",
    }
}

fn plain_switch() -> SwitchKind {
    SwitchKind::CutThrough
}

fn read_switch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SwitchKind, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "cut_through" => Ok(SwitchKind::CutThrough),
        "store_and_forward" => Ok(SwitchKind::StoreAndForward),
        other => Err(D::Error::custom(format!("a switch is \"cut_through\" or \"store_and_forward\", not `{other}`"))),
    }
}

fn switch_text(switch: SwitchKind) -> &'static str {
    match switch {
        SwitchKind::CutThrough => "cut_through",
        SwitchKind::StoreAndForward => "store_and_forward",
    }
}

fn each_device() -> Attachment {
    Attachment::Device
}

fn read_attachment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Attachment, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "device" => Ok(Attachment::Device),
        "node" => Ok(Attachment::Node),
        other => Err(D::Error::custom(format!("a network is attached to each \"device\" or \"node\", not `{other}`"))),
    }
}

fn attachment_text(attached: Attachment) -> &'static str {
    match attached {
        Attachment::Device => "device",
        Attachment::Node => "node",
    }
}

fn read_local_moves<'de, D: Deserializer<'de>>(deserializer: D) -> Result<LocalMoves, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "free" => Ok(LocalMoves::Free),
        "memory" => Ok(LocalMoves::Memory),
        other => Err(D::Error::custom(format!("local moves are \"free\" or \"memory\", not `{other}`"))),
    }
}

fn local_moves_text(moves: LocalMoves) -> &'static str {
    match moves {
        LocalMoves::Free => "free",
        LocalMoves::Memory => "memory",
    }
}

fn read_wiring<'de, D: Deserializer<'de>>(deserializer: D) -> Result<WiringRule, D::Error> {
    let text = String::deserialize(deserializer)?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let size = |word: &str| word.parse::<u32>().ok().filter(|size| *size > 0);
    let rule = match words.as_slice() {
        ["ring"] => Some(WiringRule::Always(Wiring::Ring)),
        ["line"] => Some(WiringRule::Always(Wiring::Line)),
        ["switch"] => Some(WiringRule::Always(Wiring::Switch)),
        ["ring", "of", "size", number] => size(number).map(WiringRule::RingOfSize),
        ["rings", "of", "multiples", "of", number] => size(number).map(WiringRule::RingsOfMultiple),
        _ => None,
    };
    rule.ok_or_else(|| {
        D::Error::custom(format!(
            "`{text}` is no wiring; it is \"ring\", \"line\", \"switch\", \"ring of size 16\" or \"rings of multiples of 4\""
        ))
    })
}

fn wiring_text(rule: WiringRule) -> String {
    match rule {
        WiringRule::Always(wiring) => wiring.to_string(),
        WiringRule::RingOfSize(size) => format!("ring of size {size}"),
        WiringRule::RingsOfMultiple(multiple) => format!("rings of multiples of {multiple}"),
    }
}

/// In the longest unit of which it is a whole number.
fn time_text(picoseconds: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(1_000_000_000_000, "s"), (1_000_000_000, "ms"), (1_000_000, "us"), (1_000, "ns")];
    let unit = UNITS.into_iter().find(|(unit, _)| picoseconds.is_multiple_of(*unit));
    let (unit, name) = unit.unwrap_or((1, "ps"));
    format!("{}{name}", picoseconds / unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::TimeScale;

    #[test]
    fn shipped_profiles_are_read() {
        for (name, text) in SHIPPED {
            let hardware = read(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(hardware.name, name);
            assert!(hardware.description.contains("How To Scale Your Model") || name == "furiosa");
            assert_eq!(hardware.to_toml(), text);
            assert_eq!(read(&write(&hardware)), Ok(hardware.clone()));
            TimeScale::for_rates(hardware.rates()).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert!(Hardware::named(Hardware::DEFAULT).is_some());
    }

    #[test]
    fn a_changed_profile_is_written_anew() {
        let mut hardware = Hardware::named("h100").expect("shipped");
        hardware.network.message_overhead = 1_500;
        hardware.network.switch = SwitchKind::StoreAndForward;
        hardware.beyond[0].attached = Attachment::Node;
        hardware.hop_rule = HopRule::Sum;
        hardware.local_moves = LocalMoves::Memory;
        let (local, shuffle) = Work::ALL.split_at(7);
        let engines = [("compute", local), ("dma", shuffle)].map(|(name, runs)| (name.to_owned(), runs.to_vec()));
        hardware.engines = Engines::new(engines.into()).expect("all work");
        hardware.description = "with \"quotes\", a \\ and a\ttab".to_owned();
        assert_eq!(Hardware::from_toml(&hardware.to_toml()), Ok(hardware));
    }

    fn error_of(from: &str, to: &str) -> (String, String) {
        let text = SHIPPED[3].1.replace(from, to);
        let error = read(&text).expect_err("a wrong profile");
        let place = error.span.map_or("", |span| &text[span.offset()..span.offset() + span.len()]);
        (error.message.clone(), place.to_owned())
    }

    #[test]
    fn errors_have_their_place() {
        let (message, place) = error_of("hop_latency = \"1us\"", "hop_latency = 1");
        assert!(message.contains("such as \"1us\""), "{message}");
        assert_eq!(place, "1");
        let (message, place) = error_of("one_way", "oneway");
        assert!(message.contains("unknown field `oneway`"), "{message}");
        assert_eq!(place, "oneway");
        let (message, place) = error_of("4.5e10 ", "0 ");
        assert!(message.contains("below 1000"), "{message}");
        assert_eq!(place, "0");
        let (message, _) = error_of("\"ring of size 16\"", "\"torus\"");
        assert!(message.contains("`torus` is no wiring"), "{message}");
        let (message, _) = error_of("name = \"tpu_v5e\"", "");
        assert!(message.contains("missing field `name`"), "{message}");
        let (message, _) = error_of("hbm_bytes = 16e9", "hbm_bytes = -1");
        assert!(message.contains("`-1` is not a whole number of bytes"), "{message}");
        let (message, place) = error_of("attached = \"device\"", "attached = \"rack\"");
        assert!(message.contains("not `rack`"), "{message}");
        assert_eq!(place, "\"rack\"");
        assert_eq!(error_of("\"dcn\"", "\"ici\"").0, "two networks are called `ici`");
        assert!(error_of("\"dcn\"", "\"d c n\"").0.contains("is not one word"));
        assert!(read("[[[").is_err());
        let engines = |text: &str| error_of("# The links between", &format!("[engines]\n{text}\n# The links between"));
        assert_eq!(engines("main = [\"add\"]").0, "no engine runs `mat_mul`");
        assert!(engines("main = [\"sort\"]").0.contains("not `sort`"));
        assert_eq!(engines("main = [\"add\"]\nsub = [\"add\"]").0, "`add` runs on `main` and on `sub`");
    }
}
