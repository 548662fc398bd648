//! Hardware profiles as TOML.

use super::attention::{Attention, AttentionDocument, QueryTile};
use super::engines::{Engines, Work};
use super::experts::{Experts, ExpertsDocument, Rows};
use super::fabric::{self, Listed};
use super::hardware::{Attachment, Hardware, HopRule, LocalMoves, Network, SwitchKind, WiringRule};
use super::listed::{End, Links};
use super::measured::{Measured, MeasuredDocument, Messages, Protocol};
use super::products::{Products, ProductsDocument, Tile};
use crate::diag::did_you_mean;
use crate::dtype::DType;
use crate::escape::toml_value;
use crate::fusion::Fusion;
use crate::units::{Bytes, Rate};
use crate::{amount, characters};
use itertools::Itertools;
use miette::{Diagnostic, SourceSpan};
use serde::Serialize;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use thiserror::Error;

/// The shipped profiles, by name.
const SHIPPED: [(&str, &str); 22] = [
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
    ("b300", include_str!("profiles/b300.toml")),
    ("gb200", include_str!("profiles/gb200.toml")),
    ("gb300", include_str!("profiles/gb300.toml")),
    ("l40s", include_str!("profiles/l40s.toml")),
    ("rtx_pro_6000", include_str!("profiles/rtx_pro_6000.toml")),
    ("h100_book", include_str!("profiles/h100_book.toml")),
    ("gb200_nvl72", include_str!("profiles/gb200_nvl72.toml")),
    ("mi300x", include_str!("profiles/mi300x.toml")),
    ("trn1", include_str!("profiles/trn1.toml")),
    ("trn2", include_str!("profiles/trn2.toml")),
    ("furiosa", include_str!("profiles/furiosa.toml")),
    ("furiosa_slices", include_str!("profiles/furiosa_slices.toml")),
];

/// Other names of shipped profiles, in lower case and without signs.
const ALIASES: [(&str, &str); 29] = [
    ("v3", "tpu_v3"),
    ("tpu4", "tpu_v4p"),
    ("v4", "tpu_v4p"),
    ("tpuv4", "tpu_v4p"),
    ("v5lite", "tpu_v5e"),
    ("v5litepod", "tpu_v5e"),
    ("tpuv5lite", "tpu_v5e"),
    ("v6", "tpu_v6e"),
    ("tpuv6", "tpu_v6e"),
    ("v6lite", "tpu_v6e"),
    ("tpuv6lite", "tpu_v6e"),
    ("trillium", "tpu_v6e"),
    ("7x", "tpu7x"),
    ("v7", "tpu7x"),
    ("v7x", "tpu7x"),
    ("tpu7", "tpu7x"),
    ("tpuv7", "tpu7x"),
    ("tpuv7x", "tpu7x"),
    ("ironwood", "tpu7x"),
    ("nvl72", "gb200_nvl72"),
    ("rtx6000blackwell", "rtx_pro_6000"),
    ("rtxpro6000blackwell", "rtx_pro_6000"),
    ("trainium", "trn1"),
    ("trainium1", "trn1"),
    ("trn132xlarge", "trn1"),
    ("trainium2", "trn2"),
    ("trn248xlarge", "trn2"),
    ("rngd", "furiosa"),
    ("furiosarngd", "furiosa"),
];

/// Longer names are not compared.
const LONGEST_NAME: usize = 64;

/// A name without case and signs.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase()
}

/// A plain name without vendor, memory size and form factor: `h100` of `NVIDIA H100 80GB HBM3`, `v5e` of `tpu_v5e`.
fn bare(name: &str) -> String {
    const VENDORS: [&str; 11] =
        ["nvidia", "amd", "instinct", "aws", "google", "cloud", "dgx", "hgx", "tesla", "gpu", "tpu"];
    const FORMS: [&str; 14] =
        ["sxm2", "sxm3", "sxm4", "sxm5", "sxm6", "sxm", "pcie", "nvl", "hbm2e", "hbm3e", "hbm2", "hbm3", "hbm", "gpu"];
    let name = plain(name);
    let mut bare = name.as_str();
    while let Some(rest) = VENDORS.iter().find_map(|vendor| bare.strip_prefix(vendor).filter(|rest| rest.len() > 1)) {
        bare = rest;
    }
    let sized = |text: &str| -> Option<usize> {
        let digits = text.strip_suffix("gb")?;
        // `h10080gb`: only the digits of the size are cut off.
        let sizes = ["288", "192", "186", "180", "141", "96", "94", "80", "64", "48", "40", "32", "24", "16"];
        let size = sizes.iter().find(|size| digits.ends_with(**size))?;
        Some(digits.len() - size.len())
    };
    loop {
        let rest =
            FORMS.iter().find_map(|form| bare.strip_suffix(form)).or_else(|| sized(bare).map(|end| &bare[..end]));
        match rest.filter(|rest| rest.len() > 1) {
            Some(rest) => bare = rest,
            None => return bare.to_owned(),
        }
    }
}

/// An invalid hardware profile.
#[derive(Clone, Debug, PartialEq, Eq, Error, Diagnostic)]
#[error("{message}")]
#[diagnostic(code("hardware-profile"), help("`shardc hardware tpu_v5e` prints a complete profile"))]
pub struct ProfileError {
    /// The error, in lower case.
    pub message: String,
    /// Its location in the text, if known.
    #[label("here")]
    pub span: Option<SourceSpan>,
}

impl Hardware {
    /// A shipped profile by name.
    pub fn named(name: &str) -> Option<Hardware> {
        let (_, text) = SHIPPED.iter().find(|(known, _)| *known == name)?;
        Some(Hardware::from_toml(text).expect("shipped profiles are read in the tests"))
    }

    /// Names of the shipped profiles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// The shipped profiles that another name of them means: `TPUv5e`, `v5p`, `H100-SXM`, `A100 80GB`, or all for `tpu_v5`.
    ///
    /// The name is compared without case and signs: whole, then without its vendor and form factor, also with the other names of
    /// the table; then as the beginning of names. A name that is one letter away from profiles is a typing error.
    pub fn near(name: &str) -> Vec<&'static str> {
        let wanted = plain(name);
        if !(2..=LONGEST_NAME).contains(&wanted.len()) {
            return Vec::new();
        }
        let equal = |wanted: &str| Hardware::names().find(|known| plain(known) == wanted);
        let bare = bare(name);
        let alias = || ALIASES.iter().find(|(alias, _)| *alias == wanted || *alias == bare).map(|(_, known)| *known);
        let same = || Hardware::names().find(|known| bare == self::bare(known));
        if let Some(one) = equal(&wanted).or_else(alias).or_else(same) {
            return vec![one];
        }
        let longer: Vec<&str> = Hardware::names().filter(|known| plain(known).starts_with(&wanted)).collect();
        if !longer.is_empty() {
            return longer;
        }
        // Another digit is another machine.
        let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
        let typo = |known: &&str| strsim::osa_distance(&plain(known), &wanted) <= 1 && digits(known) == digits(&wanted);
        let near: Vec<&str> = Hardware::names().filter(typo).collect();
        // Of several, those of one family: `V100` is neither of two, `tpu_v5f` is one of two.
        let stem = |text: &str| text.char_indices().next_back().map(|(last, _)| text[..last].to_owned());
        let is_alone = near.len() == 1;
        near.into_iter().filter(|known| is_alone || stem(&plain(known)) == stem(&wanted)).collect()
    }

    /// Help for an unknown name.
    pub fn unknown(name: &str) -> String {
        let device = match name.to_lowercase().as_str() {
            "gpu" | "cuda" | "nvidia" => Some("h100"),
            "tpu" => Some("tpu_v5p"),
            _ => None,
        };
        if let Some(device) = device {
            return format!("name a device, such as `{device}`; `shardc hardware` lists the profiles");
        }
        match Hardware::near(name).as_slice() {
            [near] => did_you_mean(near),
            [first, .., last] => format!("did you mean `{first}` or `{last}`? `shardc hardware` lists the profiles"),
            [] => {
                let known: Vec<&str> = Hardware::names().collect();
                format!("profiles are {}; or use `--hardware FILE.toml`", known.join(", "))
            }
        }
    }

    /// Parses a profile.
    ///
    /// # Errors
    /// If the text is not TOML, a field is unknown, missing or repeated, or a figure has the wrong unit or range; the error has
    /// the location.
    pub fn from_toml(text: &str) -> Result<Hardware, ProfileError> {
        read(text)
    }

    /// The profile as a JSON document, in base units.
    pub fn document(&self) -> ProfileDocument {
        document(self)
    }

    /// The profile as TOML: a shipped one verbatim with comments, others generated.
    pub fn to_toml(&self) -> String {
        let shipped = SHIPPED.iter().find(|(name, _)| *name == self.name);
        match shipped {
            Some((_, text)) if Hardware::named(&self.name).as_ref() == Some(self) => (*text).to_owned(),
            Some(_) | None => write(self),
        }
    }
}

/// Parses a profile; see [`Hardware::from_toml`].
fn read(text: &str) -> Result<Hardware, ProfileError> {
    characters::check(text).map_err(|error| ProfileError { message: error.to_string(), span: Some(error.at) })?;
    let hardware: Hardware = toml::from_str(text).map_err(|error| ProfileError {
        message: error.message().trim_end().replace('\n', "; "),
        span: error.span().map(SourceSpan::from),
    })?;
    let twice = hardware.networks().map(|network| network.name.clone()).duplicates().next();
    let twice = twice.map(|name| format!("two networks are named `{name}`"));
    let flaw = hardware.products.by_unit().find_map(|(unit, dtype, products)| {
        let field = if hardware.dtype_flops.contains_key(&dtype) { "dtype_flops" } else { "bf16_flops" };
        let field = if unit == "int8" { "int8_flops" } else { field };
        products.flaw(field, hardware.flops(dtype), hardware.hbm_bandwidth)
    });
    let attention = || hardware.attention.as_ref()?.flaw(hardware.bf16_flops, hardware.hbm_bandwidth);
    match twice.or(flaw).or_else(attention).or_else(|| fabric::flaw(&hardware)) {
        Some(message) => Err(ProfileError { message, span: None }),
        None => Ok(hardware),
    }
}

/// Formats a profile for [`read`].
fn write(hardware: &Hardware) -> String {
    let fields = [
        ("name", toml_value(&hardware.name)),
        ("description", toml_value(&hardware.description)),
        ("bf16_flops", toml_value(&hardware.bf16_flops)),
        ("int8_flops", toml_value(&hardware.int8_flops)),
        ("hbm_bytes", toml_value(&hardware.hbm_bytes)),
        ("hbm_bandwidth", toml_value(&hardware.hbm_bandwidth)),
        ("hop_rule", toml_value(&hardware.hop_rule)),
        ("local_moves", toml_value(&hardware.local_moves)),
        ("fusion", toml_value(&hardware.fusion)),
        ("kernel_start", time(hardware.kernel_start)),
    ];
    let limit = hardware.broadcast_limit.map(|limit| ("broadcast_limit", toml_value(&limit)));
    let rates = hardware.dtype_flops.iter().map(|(dtype, rate)| format!("{dtype} = {}", toml_value(rate))).join(", ");
    let rates = (!rates.is_empty()).then(|| ("dtype_flops", format!("{{ {rates} }}")));
    let mut text = lines(fields.into_iter().chain(limit).chain(rates));
    let engines = &hardware.engines;
    // That of every profile need not be said.
    if *engines != Engines::default() {
        let runs = |engine| format!("[{}]", engines.runs(engine).map(|work| toml_value(&work)).join(", "));
        let names = engines.names().iter().map(String::as_str);
        text += &format!("\n[engines]\n{}", lines(names.zip(engines.ids().map(runs))));
    }
    for (unit, _, products) in hardware.products.by_unit() {
        text += &format!("\n[products.{unit}]\n{}", products_text(products));
    }
    if let Some(attention) = &hardware.attention {
        text += &format!("\n[attention]\n{}", attention_text(attention));
    }
    if let Some(Experts { dispatch, combine }) = &hardware.experts {
        let ways = [("dispatch", rows_text(dispatch)), ("combine", rows_text(combine))];
        text += &format!("\n[experts]\n{}", lines(ways));
    }
    text += &format!("\n[network]\n{}", network_text(&hardware.network, "network"));
    for network in &hardware.beyond {
        text += &format!("\n[[beyond]]\n{}", network_text(network, "beyond"));
    }
    text
}

/// Formats picoseconds with a unit.
fn time(picoseconds: u64) -> String {
    toml_value(&amount::exact(picoseconds, &amount::TIME))
}

/// - `table`: the table of the fields.
fn network_text(network: &Network, table: &str) -> String {
    let methods: Vec<&str> = network.methods.iter().map(|method| method.name()).collect();
    let methods = (!methods.is_empty()).then(|| ("methods", toml_value(&methods)));
    let fields = [
        ("name", toml_value(&network.name)),
        ("one_way", toml_value(&network.one_way)),
        ("hop_latency", time(network.hop_latency)),
        ("message_overhead", time(network.message_overhead)),
        ("wiring", toml_value(&network.wiring)),
        ("switch", toml_value(&network.switch)),
        ("attached", toml_value(&network.attached)),
    ];
    let devices = network.devices.map(|devices| ("devices", toml_value(&devices)));
    let torus = network.torus.map(|sides| ("torus", toml_value(&sides)));
    let adds: Vec<String> = network.adds.iter().map(DType::to_string).collect();
    let adds = (!adds.is_empty()).then(|| ("adds", toml_value(&adds)));
    let switches = (!network.switches.is_empty()).then(|| ("switches", toml_value(&network.switches)));
    let ports = network.ports.map(|ports| ("ports", toml_value(&ports)));
    let mut text =
        lines(fields.into_iter().chain(devices).chain(torus).chain(switches).chain(ports).chain(methods).chain(adds));
    for links in &network.links {
        text += &format!("\n[[{table}.links]]\n{}", links_text(links));
    }
    for measured in &network.measured {
        text += &format!("\n[[{table}.measured]]\n{}", measured_text(measured));
    }
    text
}

fn links_text(links: &Links) -> String {
    let end = |end: &End| match end {
        End::Device(number) => number.to_string(),
        End::Switch(name) => toml_value(name),
    };
    let pairs = |key, pairs: &[[End; 2]]| {
        let listed = pairs.iter().map(|[from, to]| format!("[{}, {}]", end(from), end(to))).join(", ");
        (!pairs.is_empty()).then(|| (key, format!("[{listed}]")))
    };
    let one_way = links.one_way.map(|rate| ("one_way", toml_value(&rate)));
    let latency = links.hop_latency.map(|latency| ("hop_latency", time(latency)));
    lines([pairs("between", &links.between), pairs("from_to", &links.from_to), one_way, latency].into_iter().flatten())
}

fn measured_text(measured: &Measured) -> String {
    let sums = measured.sums.as_ref().map(|sums| ("sums", messages_text(sums)));
    lines(
        [
            ("devices", measured.devices.to_string()),
            ("collectives", messages_text(&measured.collectives)),
            ("exchanges", messages_text(&measured.exchanges)),
        ]
        .into_iter()
        .chain(sums),
    )
}

fn messages_text(messages: &Messages) -> String {
    format!("{{ start = {}, protocols = {} }}", time(messages.start), protocols_text(&messages.protocols))
}

fn protocols_text(protocols: &[Protocol]) -> String {
    let protocol =
        |one: &Protocol| format!("{{ latency = {}, one_way = {} }}", time(one.latency), toml_value(&one.one_way));
    format!("[{}]", protocols.iter().map(protocol).join(", "))
}

fn products_text(products: &Products) -> String {
    let tile = |tile: &Tile| {
        format!("{{ rows = {}, columns = {}, flops = {} }}", tile.rows, tile.columns, toml_value(&tile.flops))
    };
    lines([
        ("units", products.units.to_string()),
        ("start", time(products.start)),
        ("wave", time(products.wave)),
        ("cut", time(products.cut)),
        ("parts", toml_value(&products.parts)),
        ("memory", protocols_text(&products.memory)),
        ("tiles", format!("[{}]", products.tiles.iter().map(tile).join(", "))),
    ])
}

fn attention_text(attention: &Attention) -> String {
    let tile = |QueryTile { rows, start, element, flops }: &QueryTile| {
        let [start, element] = [start, element].map(|figure| time(*figure));
        format!("{{ rows = {rows}, start = {start}, element = {element}, flops = {} }}", toml_value(flops))
    };
    lines([
        ("units", attention.units.to_string()),
        ("start", time(attention.start)),
        ("memory", toml_value(&attention.memory)),
        ("tiles", format!("[{}]", attention.tiles.iter().map(tile).join(", "))),
    ])
}

fn rows_text(Rows { start, element, token, copy, one_way }: &Rows) -> String {
    let times = [("start", start), ("element", element), ("token", token), ("copy", copy)];
    let times = times.map(|(field, figure)| format!("{field} = {}", time(*figure))).join(", ");
    format!("{{ {times}, one_way = {} }}", toml_value(one_way))
}

fn lines<'a>(fields: impl IntoIterator<Item = (&'a str, String)>) -> String {
    fields.into_iter().map(|(field, value)| format!("{field} = {value}\n")).collect()
}

/// A profile as a JSON document, in base units.
#[derive(Clone, Debug, Serialize)]
pub struct ProfileDocument {
    name: String,
    description: String,
    /// Operations per second on bf16.
    bf16_flops: Rate,
    /// Operations per second on int8.
    int8_flops: Rate,
    /// Rates of single dtypes.
    dtype_flops: Vec<DTypeFlops>,
    hbm_bytes: Bytes,
    /// Bytes per second of memory.
    hbm_bandwidth: Rate,
    hop_rule: HopRule,
    local_moves: LocalMoves,
    /// Supported fusion.
    fusion: Fusion,
    kernel_start_ps: u64,
    /// By arithmetic unit.
    products: BTreeMap<&'static str, ProductsDocument>,
    /// Attention kernels, if measured.
    attention: Option<AttentionDocument>,
    /// Exchanges of tokens with their experts, if measured.
    experts: Option<ExpertsDocument>,
    /// Limit on the bytes of a broadcast, if any.
    broadcast_limit: Option<Bytes>,
    engines: Vec<EngineDocument>,
    /// Networks, the one inside a node first.
    networks: Vec<NetworkDocument>,
}

/// Operations per second of a dtype.
#[derive(Clone, Debug, Serialize)]
struct DTypeFlops {
    dtype: &'static str,
    flops: Rate,
}

/// An engine and its work.
#[derive(Clone, Debug, Serialize)]
struct EngineDocument {
    name: String,
    runs: Vec<Work>,
}

/// A network in base units.
#[derive(Clone, Debug, Serialize)]
struct NetworkDocument {
    name: String,
    /// Bytes per second of a link, in one direction.
    one_way: Rate,
    hop_latency_ps: u64,
    message_overhead_ps: u64,
    /// Number of devices that it connects; `None` for any number.
    devices: Option<NonZeroU32>,
    wiring: WiringRule,
    /// Number of sides of a slice, along which its chips have links; `None` if unknown.
    torus: Option<NonZeroU32>,
    switch: SwitchKind,
    attached: Attachment,
    /// Methods of its library; empty for all methods.
    methods: Vec<&'static str>,
    /// Dtypes that its switches add.
    adds: Vec<String>,
    measured: Vec<MeasuredDocument>,
    /// Names of the switches of a fabric.
    switches: Vec<String>,
    /// One-way links of a fabric.
    links: Vec<LinkDocument>,
}

/// A one-way link of a fabric in base units.
#[derive(Clone, Debug, Serialize)]
struct LinkDocument {
    from: End,
    to: End,
    /// Bytes per second.
    one_way: Rate,
    hop_latency_ps: u64,
}

impl From<Listed> for LinkDocument {
    fn from(Listed { from, to, rate, latency }: Listed) -> LinkDocument {
        LinkDocument { from, to, one_way: rate, hop_latency_ps: latency }
    }
}

/// Converts a profile.
fn document(hardware: &Hardware) -> ProfileDocument {
    let engines = hardware.engines.ids().zip(hardware.engines.names());
    let engines = engines
        .map(|(id, name)| EngineDocument { name: name.clone(), runs: hardware.engines.runs(id).collect() })
        .collect();
    let networks = hardware.networks().cloned().map(NetworkDocument::from).collect();
    let Hardware { name, description, bf16_flops, int8_flops, hbm_bytes, hbm_bandwidth, .. } = hardware.clone();
    let Hardware { hop_rule, local_moves, fusion, broadcast_limit, kernel_start, .. } = *hardware;
    let products = hardware.products.by_unit().map(|(unit, _, products)| (unit, products.into())).collect();
    let dtype_flops = hardware.dtype_flops.iter();
    let dtype_flops = dtype_flops.map(|(dtype, flops)| DTypeFlops { dtype: dtype.name(), flops: *flops }).collect();
    ProfileDocument {
        name,
        description,
        bf16_flops,
        int8_flops,
        dtype_flops,
        hbm_bytes,
        hbm_bandwidth,
        hop_rule,
        local_moves,
        fusion,
        kernel_start_ps: kernel_start,
        products,
        attention: hardware.attention.as_ref().map(AttentionDocument::from),
        experts: hardware.experts.as_ref().map(ExpertsDocument::from),
        broadcast_limit,
        engines,
        networks,
    }
}

impl From<Network> for NetworkDocument {
    fn from(network: Network) -> NetworkDocument {
        let methods = network.methods.iter().map(|method| method.name()).collect();
        let measured = network.measured.iter().map(MeasuredDocument::from).collect();
        let links = network.one_way_links().map(LinkDocument::from).collect();
        let adds = network.adds.iter().map(DType::to_string).collect();
        let Network { name, one_way, hop_latency, message_overhead, devices, wiring, torus, .. } = network;
        let Network { switch, attached, .. } = network;
        let (hop_latency_ps, message_overhead_ps) = (hop_latency, message_overhead);
        NetworkDocument {
            name,
            one_way,
            hop_latency_ps,
            message_overhead_ps,
            devices,
            wiring,
            torus,
            switch,
            attached,
            methods,
            adds,
            measured,
            switches: network.switches,
            links,
        }
    }
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
            let sources =
                ["How To Scale Your Model", "docs/machines.md", "Furiosa", "data sheet", "AWS Neuron documentation"];
            assert!(sources.iter().any(|source| hardware.description.contains(source)), "{name}");
            assert_eq!(hardware.to_toml(), text);
            assert_eq!(read(&write(&hardware)), Ok(hardware.clone()));
            TimeScale::for_rates(hardware.rates()).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert!(Hardware::named(Hardware::DEFAULT).is_some());
    }

    #[test]
    fn a_changed_profile_is_written_anew() {
        let mut hardware = Hardware::named("h100").expect("shipped");
        hardware.kernel_start += 1_000;
        hardware.dtype_flops.insert(DType::F32, Rate::new(500_000_000_000_000).expect("a rate"));
        hardware.products.fp8 = hardware.products.bf16.clone();
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
        assert!(message.contains("unknown wiring `torus`"), "{message}");
        let (message, _) = error_of("name = \"tpu_v5e\"", "");
        assert!(message.contains("missing field `name`"), "{message}");
        let (message, _) = error_of("hbm_bytes = 16e9", "hbm_bytes = -1");
        assert!(message.contains("`-1` is not a whole number of bytes"), "{message}");
        let (message, place) = error_of("attached = \"device\"", "attached = \"rack\"");
        assert!(message.contains("`rack`, expected `device` or `node`"), "{message}");
        assert_eq!(place, "\"rack\"");
        assert_eq!(error_of("\"dcn\"", "\"ici\"").0, "two networks are named `ici`");
        assert!(error_of("\"dcn\"", "\"d c n\"").0.contains("is not one word"));
        assert!(read("[[[").is_err());
        let engines = |text: &str| error_of("# The links between", &format!("[engines]\n{text}\n# The links between"));
        assert_eq!(engines("main = [\"add\"]").0, "no engine runs `mat_mul`");
        let (message, place) = engines("main = [\"sort\"]");
        assert!(message.contains("unknown variant `sort`, expected one of `mat_mul`"), "{message}");
        assert_eq!(place, "\"sort\"");
        assert_eq!(engines("main = [\"add\"]\nsub = [\"add\"]").0, "`add` runs on `main` and on `sub`");
    }
}
