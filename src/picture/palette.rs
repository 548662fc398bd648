//! Colours of pictures: one hue for each kind of step, shades of it for the steps, and a ramp for the blocks of an array.
//!
//! Hues are those of Okabe and Ito, the ramp is viridis; both are distinguishable with every kind of colour vision. Pictures
//! name or number what they colour as well.

use crate::collective::CollectiveKind;
use crate::plan::{Plan, StepId, StepOp};
use crate::schedule::{OpKind, Reach, Schedule};
use crate::topology::Work;
use std::fmt;

/// A colour of sRGB, written as `#rrggbb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Color(pub [u8; 3]);

/// The kind of a step; each kind has its own hue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// An input.
    Input,
    /// A product.
    Product,
    /// An elementwise function.
    Elementwise,
    /// A local reduction.
    Reduction,
    /// An AllGather.
    AllGather,
    /// A ReduceScatter.
    ReduceScatter,
    /// An AllReduce.
    AllReduce,
    /// An AllToAll.
    AllToAll,
    /// A permute, a broadcast, a reshard, or messages of any other kind.
    Move,
    /// Blocks sliced or assembled on a device.
    Local,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 10] = [
        Kind::Input,
        Kind::Product,
        Kind::Elementwise,
        Kind::Reduction,
        Kind::AllGather,
        Kind::ReduceScatter,
        Kind::AllReduce,
        Kind::AllToAll,
        Kind::Move,
        Kind::Local,
    ];

    /// The kind of a step.
    pub fn of_step(plan: &Plan, id: StepId) -> Kind {
        match &plan.step(id).op {
            StepOp::Input | StepOp::Carry => Kind::Input,
            StepOp::Product { .. } | StepOp::Kernel(_) => Kind::Product,
            StepOp::Map { .. } => Kind::Elementwise,
            StepOp::Reduce { .. } => Kind::Reduction,
            StepOp::Collective(_) if !plan.communicates(id) => Kind::Local,
            StepOp::Collective(collective) => match collective.kind() {
                CollectiveKind::AllGather => Kind::AllGather,
                CollectiveKind::ReduceScatter => Kind::ReduceScatter,
                CollectiveKind::AllReduce => Kind::AllReduce,
                CollectiveKind::AllToAll => Kind::AllToAll,
                CollectiveKind::Permute
                | CollectiveKind::Reshard
                | CollectiveKind::Shift
                | CollectiveKind::Broadcast
                | CollectiveKind::Slice
                | CollectiveKind::Open => Kind::Move,
            },
        }
    }

    /// The kind of an operation by itself.
    pub fn of_operation(kind: &OpKind) -> Kind {
        let properties = kind.properties();
        match (properties.reach, properties.work) {
            (Reach::Given(_), _) => Kind::Input,
            (Reach::Sent(..) | Reach::Gathered(_), _) => Kind::Move,
            (Reach::Own, Some(Work::MatMul)) => Kind::Product,
            (Reach::Own, Some(Work::Reduce)) => Kind::Reduction,
            (Reach::Own, _) if properties.moves => Kind::Local,
            (Reach::Own, _) => Kind::Elementwise,
        }
    }

    /// The name in legends and in style sheets.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Input => "input",
            Kind::Product => "product",
            Kind::Elementwise => "elementwise",
            Kind::Reduction => "reduction",
            Kind::AllGather => "AllGather",
            Kind::ReduceScatter => "ReduceScatter",
            Kind::AllReduce => "AllReduce",
            Kind::AllToAll => "AllToAll",
            Kind::Move => "move",
            Kind::Local => "local",
        }
    }

    /// The darkest and the lightest shade.
    fn ends(self) -> [Color; 2] {
        let [dark, light] = match self {
            Kind::Input => [0x8a1c5c, 0xf9bcd9],
            Kind::Product => [0x0b3c73, 0xa9d5f5],
            Kind::Elementwise => [0x4d4d4d, 0xcccccc],
            Kind::Reduction => [0x075a66, 0x9be0e6],
            Kind::AllGather => [0x8a4b00, 0xffd28a],
            Kind::ReduceScatter => [0x0d5b2e, 0xa3dfb0],
            Kind::AllReduce => [0x8a1c12, 0xffb3a3],
            Kind::AllToAll => [0x5a1a66, 0xe3b5ea],
            Kind::Move => [0x5f5500, 0xebe07a],
            Kind::Local => [0x34308f, 0xcbc7f5],
        };
        [Color::of(dark), Color::of(light)]
    }

    /// The lightest shade, behind black text.
    pub fn tint(self) -> Color {
        self.ends()[1]
    }

    /// The shade of the `place`-th step of its kind. All shades differ, and consecutive ones differ clearly.
    pub fn shade(self, place: usize) -> Color {
        let [dark, light] = self.ends();
        // The sequence of van der Corput halves the widest gap that is left.
        let (mut part, mut half, mut rest) = (0.0, 0.5, place + 1);
        while rest > 0 {
            part += half * (rest & 1) as f64;
            (half, rest) = (half / 2.0, rest >> 1);
        }
        Color::between(dark, light, part)
    }
}

/// The kinds of the steps of a schedule, by their number.
///
/// - `plan`: the plan that was lowered to it. Without a plan, steps that send anything are moves.
pub fn kinds(schedule: &Schedule, plan: Option<&Plan>) -> Vec<Kind> {
    if let Some(plan) = plan {
        return plan.ids().map(|id| Kind::of_step(plan, id)).collect();
    }
    let mut kinds: Vec<Kind> = Vec::new();
    for operation in schedule.ids().map(|id| schedule.operation(id)) {
        let step = operation.step as usize;
        kinds.resize(kinds.len().max(step + 1), Kind::Local);
        let kind = Kind::of_operation(&operation.kind);
        let weight = |kind: Kind| match kind {
            Kind::Move => 2,
            Kind::Input | Kind::Local => 0,
            _ => 1,
        };
        if weight(kind) > weight(kinds[step]) {
            kinds[step] = kind;
        }
    }
    kinds
}

/// The colour of each step, given the kinds of all.
pub fn shades(kinds: &[Kind]) -> Vec<Color> {
    let mut seen = [0; Kind::ALL.len()];
    let shade = |kind: &Kind| {
        let place = &mut seen[*kind as usize];
        *place += 1;
        kind.shade(*place - 1)
    };
    kinds.iter().map(shade).collect()
}

/// Viridis, sampled at ten equidistant points.
const RAMP: [u32; 10] =
    [0x440154, 0x482878, 0x3e4989, 0x31688e, 0x26828e, 0x1f9e89, 0x35b779, 0x6ece58, 0xb5de2b, 0xfde725];

/// The sampled points of the ramp.
pub fn ramp() -> [Color; 10] {
    RAMP.map(Color::of)
}

/// The colour of a block among all blocks of an array.
pub fn block(number: u64, count: u64) -> Color {
    let place = if count < 2 { 0.5 } else { number as f64 / (count - 1) as f64 };
    let along = place.clamp(0.0, 1.0) * (RAMP.len() - 1) as f64;
    let part = (1..RAMP.len()).find(|part| along <= *part as f64).unwrap_or(RAMP.len() - 1);
    Color::between(Color::of(RAMP[part - 1]), Color::of(RAMP[part]), along - (part - 1) as f64)
}

impl Color {
    const BLACK: Color = Color([0; 3]);
    const WHITE: Color = Color([255; 3]);

    const fn of(number: u32) -> Color {
        let [_, red, green, blue] = number.to_be_bytes();
        Color([red, green, blue])
    }

    fn between(from: Color, to: Color, part: f64) -> Color {
        let mixed = |place: usize| {
            let (from, to) = (f64::from(from.0[place]), f64::from(to.0[place]));
            byte(from + part * (to - from))
        };
        Color([mixed(0), mixed(1), mixed(2)])
    }

    /// Relative luminance, as WCAG 2 defines it.
    fn luminance(self) -> f64 {
        let linear = self.0.map(|channel| {
            let value = f64::from(channel) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    }

    /// Black or white, whichever has the higher contrast.
    pub fn ink(self) -> Color {
        // Where the contrast with both is the same.
        if self.luminance() > 0.179 { Color::BLACK } else { Color::WHITE }
    }

    /// The nearest colour of the 256 that terminals support.
    pub fn ansi(self) -> u8 {
        const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
        let level = |channel: u8| {
            let distance = |place: &u8| LEVELS[usize::from(*place)].abs_diff(channel);
            (0..6u8).min_by_key(distance).unwrap_or(0)
        };
        let [red, green, blue] = self.0.map(level);
        16 + 36 * red + 6 * green + blue
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped")]
fn byte(value: f64) -> u8 {
    value.round().clamp(0.0, 255.0) as u8
}

impl fmt::Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(f, "#{red:02x}{green:02x}{blue:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use itertools::Itertools;

    /// The contrast of two colours, as WCAG 2 defines it.
    fn contrast(a: Color, b: Color) -> f64 {
        let (low, high) = [a, b].map(Color::luminance).into_iter().minmax().into_option().expect("two");
        (high + 0.05) / (low + 0.05)
    }

    #[test]
    fn no_two_steps_have_one_color() {
        let kinds: Vec<Kind> = (0..400).map(|step| Kind::ALL[step % Kind::ALL.len()]).collect();
        assert!(shades(&kinds).iter().all_unique());
        let tints: Vec<Color> = Kind::ALL.iter().map(|kind| kind.tint()).collect();
        assert!(tints.iter().all_unique());
    }

    /// The hue in degrees, as in HSL; `None` for grey.
    fn hue(color: Color) -> Option<f64> {
        let [red, green, blue] = color.0.map(f64::from);
        let (low, high) = [red, green, blue].into_iter().minmax().into_option().expect("three");
        let part = |to: f64, from: f64, offset: f64| (60.0 * ((to - from) / (high - low) + offset)).rem_euclid(360.0);
        if high - low < 8.0 {
            None
        } else if high == red {
            Some(part(green, blue, 0.0))
        } else if high == green {
            Some(part(blue, red, 2.0))
        } else {
            Some(part(red, green, 4.0))
        }
    }

    /// Each kind has its own hue, at least 15 degrees from the others, in all of its shades; one kind is grey.
    #[test]
    fn each_kind_has_its_own_hue() {
        for places in itertools::iproduct!([0, 1, 5, 17], [0, 2, 9]).map(|(one, other)| [one, other]) {
            for [one, other] in Kind::ALL.into_iter().array_combinations() {
                let hues = (hue(one.shade(places[0])), hue(other.shade(places[1])));
                let apart = match hues {
                    (Some(a), Some(b)) => 180.0 - ((a - b).abs() - 180.0).abs(),
                    (None, None) => 0.0,
                    _ => 180.0,
                };
                assert!(apart > 15.0, "{one:?} {other:?}: {hues:?}");
            }
        }
    }

    /// Neighbours of one kind differ in brightness, for the colour-blind.
    #[test]
    fn neighbours_of_one_kind_differ_in_brightness() {
        for (kind, place) in itertools::iproduct!(&Kind::ALL, 0..20) {
            let (one, next) = (kind.shade(place), kind.shade(place + 1));
            assert!(contrast(one, next) > 1.2, "{kind:?} {place}: {one} {next}");
        }
    }

    #[test]
    fn text_is_read_on_every_color() {
        let steps = itertools::iproduct!(Kind::ALL, 0..40).map(|(kind, place)| kind.shade(place));
        for color in steps.chain((0..256).map(|number| block(number, 256))) {
            assert!(contrast(color, color.ink()) >= 4.5, "{color} with {}", color.ink());
        }
        assert!(Kind::ALL.iter().all(|kind| contrast(kind.tint(), Color::BLACK) > 7.0));
    }

    /// The ramp gets brighter with each block.
    #[test]
    fn blocks_are_told_apart() {
        for count in [2, 8, 16, 64] {
            let colors: Vec<Color> = (0..count).map(|number| block(number, count)).collect();
            assert!(colors.iter().tuple_windows().all(|(a, b)| a.luminance() < b.luminance()), "{colors:?}");
        }
        assert_eq!((block(0, 2), block(1, 2)), (Color::of(0x440154), Color::of(0xfde725)));
    }

    #[test]
    fn terminals_have_the_nearest_color() {
        assert_eq!((Color::BLACK.ansi(), Color::WHITE.ansi(), Color::of(0xff0000).ansi()), (16, 231, 196));
    }
}
