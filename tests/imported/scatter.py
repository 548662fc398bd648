"""Forms ReduceScatters in modules that XLA has compiled for CPUs, which has only AllReduces and slices of them.

XLA forms them for TPUs and GPUs, where a device needs only its own part of a sum: half of the bytes.
"""

import re

import xla

INSTRUCTION = re.compile(r"\s*(?:ROOT )?%?([\w.-]+) = (\(.*?\)|\S+) ([\w-]+)\((.*?)\)")
"""Name, type, operation and operands."""


def formed(text):
    """The module with the AllReduces that are only sliced as ReduceScatters."""
    bodies = computations(text)
    for body in bodies.values():
        for line in body:
            found = INSTRUCTION.match(line)
            if found and found[3] == "all-reduce":
                n = xla.group_size(line)
                parts = [part_of(name, dtype, size // n, body, bodies) for name, dtype, size in sums(found, body)]
                if all(parts):
                    scattered = line.replace(found[2], f"({', '.join(parts)})" if len(parts) > 1 else parts[0], 1)
                    text = text.replace(line, scattered.replace(" all-reduce(", " reduce-scatter(", 1))
    return text


def computations(text):
    """The lines of each computation, by its name."""
    blocks = re.split(r"\n(?=(?:ENTRY )?%?[\w.-]+ \(.*\{\n)", text)[1:]
    return {re.match(r"(?:ENTRY )?%?([\w.-]+)", block)[1]: block.splitlines()[1:] for block in blocks}


def sums(found, body):
    """Name, dtype and bytes of each array that an AllReduce makes."""
    arrays = re.findall(r"(\w+)\[([\d,]*)\]", found[2])
    for at, (dtype, dims) in enumerate(arrays):
        name = found[1] if not found[2].startswith("(") else element(found[1], at, body)
        yield name, dtype, xla.bytes_of(f"{dtype}[{dims}]")


def element(name, at, body):
    """The array that an element of a tuple is read as."""
    reads = (line for line in body if f"get-tuple-element(%{name}), index={at}" in line + ",")
    return next((INSTRUCTION.match(line)[1] for line in reads), None)


def part_of(name, dtype, size, body, bodies):
    """The type of a part of an array, if it is only read by slices that are no larger."""
    is_sliced = name is not None and only_sliced(name, size, body, bodies)
    return f"{dtype}[{size // xla.SIZES[dtype]}]" if is_sliced else None


def only_sliced(name, size, body, bodies):
    instructions = [(INSTRUCTION.match(line), line) for line in body]
    users = [(found, line) for found, line in instructions if found and name in operands(found)]
    return bool(users) and all(slices(name, size, found, line, body, bodies) for found, line in users)


def operands(found):
    return [operand.strip().lstrip("%") for operand in found[4].split(",")]


def slices(name, size, found, line, body, bodies):
    """Whether an instruction reads at most a part of this size."""
    user, result, operation, _ = found.groups()
    if operation == "dynamic-slice":
        return operands(found)[0] == name and xla.bytes_of(result) <= size
    if operation in ("bitcast", "copy"):
        return only_sliced(user, size, body, bodies)
    if operation != "fusion":
        return False
    fused = bodies[re.search(r"calls=%?([\w.-]+)", line)[1]]
    numbers = [number for number, operand in enumerate(operands(found)) if operand == name]
    inputs = [INSTRUCTION.match(line)[1] for number in numbers for line in fused if f" parameter({number})" in line]
    return all(only_sliced(parameter, size, fused, bodies) for parameter in inputs)
