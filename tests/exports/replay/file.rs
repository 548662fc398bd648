//! A reader for MSCCL files, written from the format's description, and an executor that moves and adds numbers.

use std::collections::{BTreeMap, VecDeque};

/// A range of chunks: the letter of a buffer, and the first chunk.
type Place = (char, i16);

struct Step {
    kind: String,
    source: Place,
    target: Place,
    count: u8,
    /// The thread block and the step that must be done before.
    after: Option<(i8, i16)>,
}

struct Block {
    send: i16,
    receive: i16,
    channel: i8,
    steps: Vec<Step>,
}

/// An MSCCL file.
pub(super) struct File {
    pub(super) collective: String,
    /// Chunks of input, output and scratch of each rank.
    pub(super) chunks: Vec<[i32; 3]>,
    blocks: Vec<Vec<Block>>,
}

/// The value of an attribute.
fn text<'a>(line: &'a str, name: &str) -> &'a str {
    let start = line.find(&format!(" {name}=\"")).unwrap_or_else(|| panic!("`{name}` in {line}")) + name.len() + 3;
    &line[start..start + line[start..].find('"').expect("a closing quote")]
}

/// The number of an attribute, which must fit the runtime's type for it.
fn number<T: std::str::FromStr>(line: &str, name: &str) -> T {
    text(line, name).parse().unwrap_or_else(|_| panic!("`{name}` in {line}"))
}

impl File {
    pub(super) fn read(file: &str) -> File {
        let mut read = File { collective: String::new(), chunks: Vec::new(), blocks: Vec::new() };
        for line in file.lines() {
            match line.split_whitespace().next().unwrap_or_default() {
                "<algo" => {
                    assert!(text(line, "name").len() <= 64);
                    let _: [i32; 3] = ["nchannels", "nchunksperloop", "ngpus"].map(|name| number(line, name));
                    read.collective = text(line, "coll").to_owned();
                }
                "<gpu" => {
                    assert_eq!(number::<usize>(line, "id"), read.chunks.len());
                    read.chunks.push(["i_chunks", "o_chunks", "s_chunks"].map(|name| number(line, name)));
                    read.blocks.push(Vec::new());
                }
                "<tb" => {
                    let blocks = read.blocks.last_mut().expect("inside a rank");
                    assert_eq!(number::<usize>(line, "id"), blocks.len());
                    let [send, receive] = ["send", "recv"].map(|name| number(line, name));
                    blocks.push(Block { send, receive, channel: number(line, "chan"), steps: Vec::new() });
                    assert!(blocks.len() <= 216);
                }
                "<step" => {
                    let steps =
                        &mut read.blocks.last_mut().and_then(|blocks| blocks.last_mut()).expect("a block").steps;
                    assert_eq!(number::<usize>(line, "s"), steps.len());
                    let letter = |name| text(line, name).chars().next().expect("a letter");
                    let block: i8 = number(line, "depid");
                    steps.push(Step {
                        kind: text(line, "type").to_owned(),
                        source: (letter("srcbuf"), number(line, "srcoff")),
                        target: (letter("dstbuf"), number(line, "dstoff")),
                        count: number(line, "cnt"),
                        after: (block >= 0).then(|| (block, number(line, "deps"))),
                    });
                    assert!(steps.len() <= 256);
                }
                _ => {}
            }
        }
        assert_eq!(number::<usize>(file.lines().next().expect("a header"), "ngpus"), read.chunks.len());
        read
    }

    /// The longest thread block.
    pub(super) fn steps(&self) -> usize {
        self.blocks.iter().flatten().map(|block| block.steps.len()).max().unwrap_or(0)
    }

    /// The outputs after all thread blocks have run on these inputs, by rank; connections hold any number of messages.
    pub(super) fn run(&self, inputs: &[Vec<u64>]) -> Vec<Vec<Option<u64>>> {
        let mut memory: BTreeMap<(usize, char, usize), u64> = BTreeMap::new();
        for (rank, input) in inputs.iter().enumerate() {
            memory.extend(input.iter().enumerate().map(|(chunk, value)| ((rank, 'i', chunk), *value)));
        }
        let mut wires: BTreeMap<(usize, usize, i8), VecDeque<Vec<u64>>> = BTreeMap::new();
        let mut done: Vec<Vec<usize>> = self.blocks.iter().map(|blocks| vec![0; blocks.len()]).collect();
        loop {
            let mut moved = false;
            for (rank, blocks) in self.blocks.iter().enumerate() {
                for (number, block) in blocks.iter().enumerate() {
                    while let Some(step) = block.steps.get(done[rank][number]) {
                        let waits = |(block, step): (i8, i16)| {
                            done[rank][usize::try_from(block).expect("a block")]
                                <= usize::try_from(step).expect("a step")
                        };
                        if step.after.is_some_and(waits) || !self.step(rank, block, step, &mut memory, &mut wires) {
                            break;
                        }
                        done[rank][number] += 1;
                        moved = true;
                    }
                }
            }
            if !moved {
                break;
            }
        }
        let is_done = |(blocks, done): (&Vec<Block>, &Vec<usize>)| {
            blocks.iter().zip(done).all(|(block, done)| block.steps.len() == *done)
        };
        assert!(self.blocks.iter().zip(&done).all(is_done) && wires.values().all(VecDeque::is_empty), "it ends");
        let output = |(rank, chunks): (usize, &[i32; 3])| {
            let chunks = 0..usize::try_from(chunks[1]).expect("a size");
            chunks.map(|chunk| memory.get(&(rank, 'o', chunk)).copied()).collect()
        };
        self.chunks.iter().enumerate().map(output).collect()
    }

    /// Executes a step; false if its message has not arrived.
    fn step(
        &self,
        rank: usize,
        block: &Block,
        step: &Step,
        memory: &mut BTreeMap<(usize, char, usize), u64>,
        wires: &mut BTreeMap<(usize, usize, i8), VecDeque<Vec<u64>>>,
    ) -> bool {
        let peer = |peer: i16| usize::try_from(peer).expect("a peer");
        let at = |(buffer, first): Place, part: u8| {
            let chunk = usize::try_from(first).expect("an offset") + usize::from(part);
            let room = self.chunks[rank]["ios".find(buffer).expect("a buffer")];
            assert!(chunk < usize::try_from(room).expect("a size"), "chunk {chunk} of {room}");
            (rank, buffer, chunk)
        };
        let kind = step.kind.as_str();
        let arrived = match kind {
            "r" | "rcs" | "rrs" | "rrc" | "rrcs" => {
                let wire = wires.entry((peer(block.receive), rank, block.channel)).or_default();
                match wire.pop_front() {
                    Some(message) => message,
                    None => return false,
                }
            }
            _ => Vec::new(),
        };
        assert!(arrived.is_empty() || arrived.len() == usize::from(step.count));
        let mut values = Vec::new();
        for part in 0..step.count {
            let mut own = |place| *memory.entry(at(place, part)).or_default();
            let value = match kind {
                "s" | "cpy" => own(step.source),
                "r" | "rcs" => arrived[usize::from(part)],
                "rrs" | "rrc" | "rrcs" => arrived[usize::from(part)].wrapping_add(own(step.source)),
                "re" => own(step.target).wrapping_add(own(step.source)),
                "nop" => break,
                other => panic!("step type {other}"),
            };
            if !matches!(kind, "s" | "rrs") {
                memory.insert(at(step.target, part), value);
            }
            values.push(value);
        }
        if matches!(kind, "s" | "rcs" | "rrs" | "rrcs") {
            wires.entry((rank, peer(block.send), block.channel)).or_default().push_back(values);
        }
        true
    }
}
