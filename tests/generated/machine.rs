//! Meshes and dims: the declarations above the first array.

use super::choices::Choices;

/// An axis that shards dims. Split axes are represented by their parts only.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) name: String,
    pub(crate) size: u64,
}

/// A mesh as written, and its properties.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    pub(crate) lines: Vec<String>,
    pub(crate) leaves: Vec<Leaf>,
    /// Names of split axes, with their parts.
    pub(crate) words: Vec<(String, Vec<usize>)>,
    /// Whether an axis uses a network that other profiles may not have.
    pub(crate) beyond: bool,
    /// Whether links are down or slow.
    pub(crate) degraded: bool,
}

/// A dim with its size.
#[derive(Clone, Debug)]
pub(crate) struct Dim {
    pub(crate) name: String,
    pub(crate) size: u64,
    /// Whether `--set` may change its size: no other dim depends on it or must equal it.
    pub(crate) settable: bool,
}

/// All dims of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dims {
    pub(crate) list: Vec<Dim>,
    /// A merged dim: `N = K*M`.
    pub(crate) merged: Option<(String, usize, usize)>,
    pub(crate) lines: Vec<String>,
    /// A dim whose size `--set` changes.
    pub(crate) set: Option<(String, u64)>,
}

/// Profiles, the network between their nodes, and whether their axes are wired as switches.
pub(crate) const HARDWARE: [(&str, &str); 8] = [
    ("tpu_v5e", "dcn"),
    ("tpu_v5p", "dcn"),
    ("h100", "ib"),
    ("furiosa", ""),
    ("tpu_v3", ""),
    ("b200", "ib"),
    ("tpu7x", "dcn"),
    ("gb200_nvl72", "ib"),
];

/// Names of axes, dims and arrays.
#[derive(Debug)]
pub(crate) struct Names {
    axes: [&'static str; 6],
    /// Parts of the first axis that is split, and of the second one.
    parts: [[&'static str; 2]; 2],
    dims: [&'static str; 5],
    merged: &'static str,
    pub(crate) arrays: [&'static str; 12],
}

impl Names {
    /// In alphabetical order, mostly.
    pub(crate) const USUAL: Names = Names {
        axes: ["X", "Y", "Z", "data", "W", "m2"],
        parts: [["Q", "P"], ["S", "R"]],
        dims: ["I", "J", "K", "T", "H"],
        merged: "N",
        arrays: ["A", "B", "C", "D", "E", "F", "G", "L", "M", "O", "P", "V"],
    };
    /// The same names for others, in another order.
    pub(crate) const SWAPPED: Names = Names {
        axes: ["W", "Z", "Y", "a1", "X", "fsdp"],
        parts: [["R", "S"], ["P", "Q"]],
        dims: ["T", "K", "N", "I", "J"],
        merged: "H",
        arrays: ["V", "P", "O", "M", "L", "G", "F", "E", "D", "C", "B", "A"],
    };
}

/// Limits on the size of programs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Maximum number of devices.
    pub(crate) devices: u64,
    /// Maximum number of axes, counting parts.
    pub(crate) leaves: usize,
    /// Maximum number of statements, including those in bodies.
    pub(crate) statements: usize,
    /// One mesh in this many has up to [`Size::WIDE`] devices.
    pub(crate) wide: usize,
}

impl Size {
    /// For every test run.
    pub(crate) const SMALL: Size = Size { devices: 8, leaves: 2, statements: 3, wide: 250 };
    /// For long runs.
    pub(crate) const LARGE: Size = Size { devices: 16, leaves: 4, statements: 8, wide: 30 };
    /// Devices of a large mesh.
    const WIDE: u64 = 64;
}

impl Machine {
    /// A random mesh with its statements.
    pub(crate) fn new(choices: &mut Choices, most: Size, words: &Names) -> Machine {
        let (hardware, network) = choices.one(&HARDWARE);
        let most_devices = if choices.chance(1, most.wide) { Size::WIDE } else { most.devices };
        let mut machine = Machine::default();
        let mut names = words.axes.into_iter();
        let (mut devices, mut axes, mut views, mut coordinates) = (1, Vec::new(), Vec::new(), Vec::new());
        for place in 0..4 {
            choices.group(|choices| {
                if place > 0 && (machine.leaves.len() >= most.leaves || !choices.chance(1, 2)) {
                    return;
                }
                let size = choices.one(&[2, 4, 3, 8, 2, 6, 5, 2, 4, 3, 2, 1]);
                let size = if devices * size > most_devices { 2 } else { size };
                if devices * size > most_devices {
                    return;
                }
                let name = names.next().expect("enough names");
                devices *= size;
                let wiring = choices.one(&["", " ring", " line", " switch", " full"]);
                let over = !network.is_empty() && choices.chance(1, 10);
                let over_words = if over { format!(" over {network}") } else { String::new() };
                machine.beyond |= over;
                let parts = Some(size).filter(|size| *size >= 4 && machine.leaves.len() + 1 < most.leaves);
                let parts = parts.and_then(|size| {
                    let divisor = (2..size).find(|divisor| size % divisor == 0)?;
                    choices.chance(1, 3).then_some([divisor, size / divisor])
                });
                let first = machine.leaves.len();
                match parts {
                    Some([one, two]) if choices.chance(1, 2) => {
                        axes.push(format!("{name}: {one} x {two}{wiring}{over_words}"));
                        machine.leaves.push(Leaf { name: format!("{name}1"), size: one });
                        machine.leaves.push(Leaf { name: format!("{name}2"), size: two });
                        machine.words.push((name.to_owned(), vec![first, first + 1]));
                        coordinates.push((one, wiring));
                        coordinates.push((two, wiring));
                    }
                    Some([one, two]) => {
                        let [major, minor] = words.parts[usize::from(place > 0)];
                        // At most two axes are split, so that names do not clash.
                        if views.len() < 2 && !views.iter().any(|view: &String| view.contains(major)) {
                            views.push(format!("axis {name} = {{{major}: {one}, {minor}: {two}}}"));
                            machine.leaves.push(Leaf { name: major.to_owned(), size: one });
                            machine.leaves.push(Leaf { name: minor.to_owned(), size: two });
                            machine.words.push((name.to_owned(), vec![first, first + 1]));
                        } else {
                            machine.leaves.push(Leaf { name: name.to_owned(), size });
                        }
                        axes.push(format!("{name}: {size}{wiring}{over_words}"));
                        coordinates.push((size, wiring));
                    }
                    None => {
                        axes.push(format!("{name}: {size}{wiring}{over_words}"));
                        machine.leaves.push(Leaf { name: name.to_owned(), size });
                        coordinates.push((size, wiring));
                    }
                }
            });
        }
        let plain = axes.iter().all(|axis| axis.matches(' ').count() == 1);
        let mesh = match plain && choices.chance(1, 20) {
            true => {
                let pairs: Vec<(&str, &str)> = axes.iter().filter_map(|axis| axis.split_once(": ")).collect();
                let sizes: Vec<&str> = pairs.iter().map(|(_, size)| *size).collect();
                let names: Vec<String> = pairs.iter().map(|(name, _)| format!("'{name}'")).collect();
                format!("mesh = jax.make_mesh(({},), ({},)) on {hardware}", sizes.join(", "), names.join(", "))
            }
            false => format!("mesh {{{}}} on {hardware}", axes.join(", ")),
        };
        machine.lines.push(mesh);
        machine.lines.append(&mut views);
        let wired = |(size, wiring): &(u64, &str)| *size > 2 && matches!(*wiring, " ring" | " line");
        let candidates: Vec<usize> = (0..coordinates.len()).filter(|place| wired(&coordinates[*place])).collect();
        if !candidates.is_empty() {
            let open = choices.open();
            if choices.chance(1, 8) {
                machine.lines.push(link(choices, &coordinates, &candidates));
                machine.degraded = true;
            }
            choices.close(open);
        }
        machine
    }
}

impl Machine {
    /// Number of devices.
    pub(crate) fn devices(&self) -> u64 {
        self.leaves.iter().map(|leaf| leaf.size).product()
    }
}

/// A link that is slow, or down if a ring leaves another route.
fn link(choices: &mut Choices, coordinates: &[(u64, &str)], candidates: &[usize]) -> String {
    let axis = choices.one(candidates);
    let (size, wiring) = coordinates[axis];
    let from = choices.below(usize::try_from(size - 1).expect("small")) as u64;
    let place = |at: u64| {
        let all: Vec<String> =
            (0..coordinates.len()).map(|other| if other == axis { at } else { 0 }.to_string()).collect();
        format!("({})", all.join(","))
    };
    let state = match wiring == " ring" && choices.chance(1, 2) {
        true => "down".to_owned(),
        false => format!("at {}%", [50, 25, 10, 100, 1][choices.below(5)]),
    };
    let arrow = choices.one(&["->", "<->"]);
    format!("link {}{arrow}{} {state}", place(from), place(from + 1))
}

impl Dims {
    /// A size and its spelling, which may refer to the dims before.
    fn sized(&mut self, choices: &mut Choices, size: u64) -> (u64, String) {
        let before = self.list.len();
        match choices.below(24) {
            20 if size.is_power_of_two() => (size, format!("2**{}", size.ilog2())),
            21 => (size, format!("{}/2", 2 * size)),
            22 if before >= 1 && self.list[before - 1].size <= 16 => {
                let last = &mut self.list[before - 1];
                last.settable = false;
                (2 * last.size, format!("2*{}", last.name))
            }
            23 if before >= 2 && self.list[before - 1].size + self.list[before - 2].size <= 32 => {
                self.list[before - 2..].iter_mut().for_each(|dim| dim.settable = false);
                let [one, two] = [&self.list[before - 2], &self.list[before - 1]];
                (one.size + two.size, format!("{} + {}", one.name, two.name))
            }
            _ if size == 1024 => (size, "1k".to_owned()),
            _ => (size, size.to_string()),
        }
    }

    /// Random dims with their statements, and a `--set` size if requested.
    pub(crate) fn new(choices: &mut Choices, set: bool, names: &Names) -> Dims {
        let mut dims = Dims::default();
        let mut words = Vec::new();
        for name in names.dims {
            let open = choices.open();
            let size = match choices.chance(1, 60) {
                true => 1024,
                false => choices.one(&[4, 2, 8, 3, 6, 1, 5, 7, 12, 16]),
            };
            let same = dims.list.len().checked_sub(1).filter(|_| choices.chance(1, 4));
            let (size, text) = match same {
                Some(last) => {
                    let last = &mut dims.list[last];
                    last.settable = false;
                    (last.size, if choices.chance(1, 2) { last.name.clone() } else { last.size.to_string() })
                }
                None => dims.sized(choices, size),
            };
            let settable = same.is_none();
            words.push((name.to_owned(), text));
            dims.list.push(Dim { name: name.to_owned(), size, settable });
            choices.close(open);
        }
        let open = choices.open();
        if choices.chance(1, 4) {
            let at = choices.below(dims.list.len() - 1);
            dims.list[at].settable = false;
            dims.list[at + 1].settable = false;
            dims.merged = Some((names.merged.to_owned(), at, at + 1));
        }
        choices.close(open);
        if set && let Some(dim) = dims.list.iter().find(|dim| dim.settable) {
            dims.set = Some((dim.name.clone(), dim.size));
            let other = choices.one(&[8, 3, 1]);
            words.iter_mut().filter(|(name, _)| *name == dim.name).for_each(|(_, text)| *text = other.to_string());
        }
        let merged =
            dims.merged.iter().map(|(name, k, m)| format!("{name} = {}*{}", dims.list[*k].name, dims.list[*m].name));
        let all: Vec<String> = words.iter().map(|(name, size)| format!("{name}: {size}")).chain(merged).collect();
        dims.lines = vec![format!("dims {{{}}}", all.join(", "))];
        dims
    }
}
