//! The rows of the table: collectives, machines, sizes and targets.

/// Machines under one heading.
pub(crate) struct Family {
    pub(crate) title: &'static str,
    pub(crate) machines: Vec<Machine>,
}

/// A mesh as declared in a program.
pub(crate) struct Machine {
    /// Name in the table: `4x8 torus`.
    pub(crate) name: String,
    /// Declarations: `mesh {X: 4 ring, Y: 8 ring} on tpu_v5p`.
    pub(crate) declared: String,
    /// The axes of the collective.
    pub(crate) axes: Vec<String>,
    /// Number of devices.
    pub(crate) devices: u64,
    /// Target ratios for large arrays.
    pub(crate) targets: [Option<f64>; 5],
}

pub(crate) const KINDS: [&str; 5] = ["AllGather", "ReduceScatter", "AllReduce", "AllToAll", "Broadcast"];

/// Sizes of the array: latency-bound, mixed, bandwidth-bound.
pub(crate) const SIZES: [&str; 3] = ["small", "middle", "large"];

/// Columns of the array for these sizes; there are 4 rows per device, 16 for large arrays.
///
/// The last is 4096 times a prime: enough chunks for the longest line, while the search for chunk counts stays limited.
const COLUMNS: [u64; 3] = [1, 1 << 8, 4099 << 12];

impl Machine {
    fn new(name: &str, profile: &str, axes: &[(u64, &str)], targets: [Option<f64>; 5]) -> Machine {
        let names = ["X", "Y", "Z"];
        let declared: Vec<String> =
            axes.iter().zip(names).map(|((size, wiring), name)| format!("{name}: {size} {wiring}")).collect();
        Machine {
            name: name.to_owned(),
            declared: format!("mesh {{{}}} on {profile}", declared.join(", ")),
            axes: names[..axes.len()].iter().map(|name| (*name).to_owned()).collect(),
            devices: axes.iter().map(|axis| axis.0).product(),
            targets,
        }
    }

    fn with(mut self, statement: &str) -> Machine {
        self.declared = format!("{}\n{statement}", self.declared);
        self
    }

    /// The program of one row. V is the size of the whole array, with one byte per element.
    pub(crate) fn program(&self, kind: &str, size: usize) -> String {
        let axes = self.axes.concat();
        // An exchange also divides the columns.
        let rows = self.devices * if size == 2 { 16 } else { 4 };
        let columns =
            if kind == "AllToAll" { COLUMNS[size].div_ceil(self.devices).max(1) * self.devices } else { COLUMNS[size] };
        let (input, line) = match kind {
            "AllGather" => (format!("A: i8[I_{axes}, J]"), format!("AllGather_{axes}(A[I_{axes}, J]) -> B[I, J]")),
            "ReduceScatter" => (
                format!("A: i8[I, J]{{U_{axes}}}"),
                format!("ReduceScatter_{{{axes},I}}(A[I, J]{{U_{axes}}}) -> B[I_{axes}, J]"),
            ),
            "AllReduce" => {
                (format!("A: i8[I, J]{{U_{axes}}}"), format!("AllReduce_{axes}(A[I, J]{{U_{axes}}}) -> B[I, J]"))
            }
            "Broadcast" => {
                let line = format!("Broadcast_{axes}(A[I, J]{{ROOT_{axes}}}) -> B[I, J]");
                (format!("A: i8[I, J]{{ROOT_{axes}}}"), line)
            }
            _ => (format!("A: i8[I_{axes}, J]"), format!("AllToAll_{{{axes},J}}(A[I_{axes}, J]) -> B[I, J_{axes}]")),
        };
        format!("{}\ndims {{I: {rows}, J: {columns}}}\n{input}\n{line}\n", self.declared)
    }
}

/// All machines of the table; add a line to add a machine.
pub(crate) fn families() -> Vec<Family> {
    let met = [Some(1.0), Some(1.0), Some(1.0), Some(1.0), Some(1.05)];
    let line = [Some(1.0), Some(1.0), Some(1.05), None, Some(1.05)];
    // Pipelined chunks along this number of devices are too large to prove.
    let long = [Some(1.0), Some(1.0), None, None, None];
    let far = [Some(1.0), Some(1.0), Some(1.0), Some(1.0), None];
    let cable = [Some(1.05), Some(1.05), Some(1.05), None, Some(1.05)];
    let flat = [Some(1.05), Some(1.05), None, None, Some(1.05)];
    let lengths = || (2..=17).chain([64, 256]);
    let along = |wiring: &'static str, targets| {
        lengths()
            .map(|size| {
                let targets = match wiring {
                    _ if size <= 64 => targets,
                    "line" => long,
                    _ => far,
                };
                Machine::new(&format!("{wiring} of {size}"), "tpu_v5e", &[(size, wiring)], targets)
            })
            .collect()
    };
    let tori: [&[u64]; 8] = [&[4, 4], &[3, 5], &[4, 8], &[4, 4, 4], &[4, 4, 8], &[16, 16], &[32, 32], &[16, 20, 28]];
    let name = |sizes: &[u64]| sizes.iter().map(u64::to_string).collect::<Vec<_>>().join("x");
    let wired = |sizes: &[u64]| sizes.iter().map(|size| (*size, "ring")).collect::<Vec<_>>();
    let products: Vec<Machine> = tori
        .iter()
        .map(|sizes| {
            let targets = if sizes.iter().product::<u64>() <= 256 { met } else { far };
            Machine::new(&format!("{} torus", name(sizes)), "tpu_v5p", &wired(sizes), targets)
        })
        .collect();
    let flat_ones = vec![
        Machine::new("4x4 mesh", "tpu_v5p", &[(4, "line"), (4, "line")], flat),
        Machine::new("4x8 mesh", "tpu_v5p", &[(4, "line"), (8, "line")], flat),
        Machine::new("8x16 mesh, one axis wraps", "tpu_v5p", &[(8, "line"), (16, "ring")], flat),
        Machine::new("4x4 torus less a cable", "tpu_v5p", &wired(&[4, 4]), cable).with("link (0,0)<->(1,0) down"),
    ];
    let switches = vec![
        Machine::new("switch of 8", "h100_book", &[(8, "switch")], met),
        Machine::new("switch of 72", "gb200_nvl72", &[(72, "switch")], met),
        Machine {
            declared: "mesh {X: 4 over ib, Y: 8} on h100_book".to_owned(),
            ..Machine::new("4 nodes of 8", "h100_book", &[(4, ""), (8, "")], [None, None, Some(1.05), None, Some(1.05)])
        },
    ];
    let full = vec![
        Machine::new("full mesh of 4", "mi300x", &[(4, "full")], met),
        Machine::new("full mesh of 8", "mi300x", &[(8, "full")], met),
        Machine::new("full mesh of 4x4", "mi300x", &[(4, "full"), (4, "full")], met),
    ];
    vec![
        Family { title: "Rings", machines: along("ring", met) },
        Family { title: "Lines", machines: along("line", line) },
        Family { title: "Tori", machines: products },
        Family { title: "Meshes without wraparound, and damaged ones", machines: flat_ones },
        Family { title: "Switches", machines: switches },
        Family { title: "Full meshes", machines: full },
    ]
}
