//! Syntax of JAX, NumPy, PyTorch, NCCL and Python is answered with the equivalent line, which is correct.

use crate::wrong::foreign_programs;
use shardc::advice;
use shardc::compiler;
use shardc::diag::{Diagnostic, Edit, Severity};
use shardc::syntax::parse;

const GROUND: &str = "mesh {X: 4, Y: 2} on tpu_v5p\ndims {B: 64, D: 128, F: 256}\nx: bf16[B_X, D]\nW: bf16[D, F_Y]\n\
                      v: bf16[B_X, D]\ny: bf16[B, D]{U_X}\n";

/// The foreign line, and the suggested one. Both follow the common declarations.
const LINES: [(&str, &str); 86] = [
    ("z = one_hot_D(argmax_D(x))", "z = onehot_D(argmax_D(x))"),
    ("z = norm_D(x)", "z = sqrt(sum_D(x ** 2))"),
    ("z = jnp.clip(x, -1, 1)", "z = min(max(x, -1), 1)"),
    ("z = torch.clamp(x, min=0)", "z = max(x, 0)"),
    ("z = stop_gradient(x)", "z = x"),
    ("z = x[-1, :]", "z = take_B(x, B-1)"),
    ("z[B_X, F] = ncclReduceScatter(relu(x) * W)", "z[B_X, F] = relu(x) * W"),
    ("z = jnp.sum(x, axis=-1, keepdims=True)", "z = sum_D(x)"),
    ("z = psum(y, 'X')", "z = AllReduce_X(y)"),
    ("z = psum(y, axis_name='X')", "z = AllReduce_X(y)"),
    ("z = jax.lax.psum(y, (\"X\",))", "z = AllReduce_X(y)"),
    ("z = lax.psum(y, axis_name=('X'))", "z = AllReduce_X(y)"),
    ("z = dist.all_reduce(y, 'X')", "z = AllReduce_X(y)"),
    ("z = psum_scatter(y, 'X')", "z = ReduceScatter_{X,B}(y)"),
    ("z = lax.psum_scatter(y, 'X', scatter_dimension=1, tiled=True)", "z = ReduceScatter_{X,D}(y)"),
    ("z = dist.reduce_scatter_tensor(y, 'X')", "z = ReduceScatter_{X,B}(y)"),
    ("z = all_gather(x, 'X')", "z = AllGather_X(x)"),
    ("z = lax.all_gather(x, 'X', axis=0, tiled=True)", "z = AllGather_X(x)"),
    ("z = dist.all_gather_into_tensor(x, 'X')", "z = AllGather_X(x)"),
    ("z = relu(all_gather(x, 'X'))", "z = relu(AllGather_X(x))"),
    ("z = all_to_all(x, 'X', 0, 1)", "z = AllToAll_{X,D}(x)"),
    ("z = lax.all_to_all(x, axis_name='X', split_axis=1, concat_axis=0)", "z = AllToAll_{X,D}(x)"),
    ("z = jnp.einsum('BD,DF->BF', x, W)", "z[B, F]_? = x * W"),
    ("z = einsum('bd,df->bf', x, W)", "z[B, F]_? = x * W"),
    ("z = torch.einsum(\"bd,df->fb\", x, W)", "z[F, B]_? = x * W"),
    ("z = jnp.einsum('bd,bd->bd', x, v)", "z[B, D]_? = x * v"),
    ("z = jnp.matmul(x, W)", "z = x * W"),
    ("z = jnp.dot(x, W)", "z = x * W"),
    ("z = torch.mm(x, W)", "z = x * W"),
    ("z = x.dot(W)", "z = x * W"),
    ("z = jnp.multiply(x, v)", "z = x .* v"),
    ("z = torch.mul(x, v)", "z = x .* v"),
    ("z = jnp.add(x, v)", "z = x + v"),
    ("z = np.subtract(x, v)", "z = x - v"),
    ("z = jnp.maximum(x, 0)", "z = max(x, 0)"),
    ("z = jnp.exp(x)", "z = exp(x)"),
    ("z = jax.nn.silu(x) .* v", "z = silu(x) .* v"),
    ("z = F.relu(x)", "z = relu(x)"),
    ("z = torch.sigmoid(x)", "z = sigmoid(x)"),
    ("z = jax.nn.softmax(x, axis=-1)", "z = softmax_D(x)"),
    ("z = softmax(x, axis=-1)", "z = softmax_D(x)"),
    ("z = F.softmax(x, dim=-1)", "z = softmax_D(x)"),
    ("z = jnp.sum(x, axis=1)", "z = sum_D(x)"),
    ("z = sum(x, axis=0)", "z = sum_B(x)"),
    ("z = x.sum(-1)", "z = sum_D(x)"),
    ("z = x.mean(axis=-1)", "z = mean_D(x)"),
    ("z = x.max(dim=1)", "z = max_D(x)"),
    ("z = x.astype(jnp.float32)", "z = f32(x)"),
    ("z = x.to(torch.float32)", "z = f32(x)"),
    ("z = x.astype('int8')", "z = i8(x)"),
    ("z = jnp.zeros((B, D))", "z: f32[B, D] = 0"),
    ("z = jnp.zeros((B, D), device=P('X', 'Y'))", "z: f32[B_X, D_Y] = 0"),
    ("z = jnp.ones((B, D), dtype=jnp.float32)", "z: f32[B, D] = 1"),
    ("z = jnp.argmax(x, axis=-1)", "z = argmax_D(x)"),
    ("z = jnp.cumsum(x, axis=1)", "z = cumsum_D(x)"),
    ("z = torch.flip(x, dims=1)", "z = reverse_D(x)"),
    ("z = jnp.roll(x, 1, axis=1)", "z = roll_D(x, 1)"),
    ("z = jnp.take(x, 3, axis=1)", "z = take_D(x, 3)"),
    ("z = jnp.ones((B, D), dtype=jnp.float32, device=P(None, ('X', 'Y')))", "z: f32[B, D_XY] = 1"),
    ("z: bf16[B, D] P('X', None)", "z: bf16[B_X, D]"),
    ("z: bf16[B, D] NamedSharding(mesh, P(None, 'Y'))", "z: bf16[B, D_Y]"),
    ("z: bf16[B, D] Shard(1)", "z: bf16[B, D_X]"),
    ("z: bf16[B, D] Replicate()", "z: bf16[B, D]"),
    ("z: bf16(B_X, D)", "z: bf16[B_X, D]"),
    ("z: [B_X, D]", "z: bf16[B_X, D]"),
    ("z = jnp.power(x, 2)", "z = x ** 2"),
    ("z = jnp.greater(x, v)", "z = x > v"),
    ("z = torch.eq(x, v)", "z = x == v"),
    ("let z = x * W", "z = x * W"),
    ("const z = x * W", "z = x * W"),
    ("return x", "output x"),
    ("z = x * W // a product", "z = x * W  # a product"),
    ("// a comment", "# a comment"),
    ("z = x[None]", "z = x"),
    ("z = x[:, None]", "z = x"),
    ("z = x.unsqueeze(0)", "z = x"),
    ("z = x.at[3].set(0)", "z = where(iota_B == 3, 0, x)"),
    ("z = bf16(B_X, D)", "z: bf16[B_X, D]"),
    ("bf16(B_X, D)", "C: bf16[B_X, D]"),
    ("z = jnp.linalg.norm(x)", "z = sqrt(sum_{B,D}(x ** 2))"),
    ("z = jnp.linalg.norm(x, axis=-1)", "z = sqrt(sum_D(x ** 2))"),
    ("ncclAllReduce(y, z, count, ncclFloat, ncclSum, comm, stream)", "z = AllReduce_X(y)"),
    ("MPI_Allreduce(y, z, 8, MPI_FLOAT, MPI_SUM, comm)", "z = AllReduce_X(y)"),
    ("z = jax.vmap(relu)(x)", "z = relu(x)"),
    ("z = AllGather_X(x, v)", "z = AllGather_X(x)"),
    ("z = lax.rsqrt(x)", "z = rsqrt(x)"),
];

/// Words without an equivalent line, and near misses, with a part of the answer.
const OTHERS: [(&str, &str); 111] = [
    ("z = iota(B) >= iota(D)", "`iota_B`"),
    (
        "z = torch.cat([x, v], dim=0)",
        "write `dims {T: B+B}` and `z = concat_{B->T}(x, v)`: the joined dim needs a name",
    ),
    (
        "z = x.reshape(B, 16, 8)",
        "declare `H: 16, K: 8, D = H*K` in `dims` in place of its size, and the parts in the result, `z[B, H, K]_? = x`",
    ),
    ("z = dynamic_update_slice(x, v, 3)", "`where(iota_T == pos, new, cache)`"),
    ("u: bf16[64, 256]\nz = u * W", "declare it with names: `u: bf16[B, F]`; `B` is 64, `F` is 256"),
    ("u: bf16[3, 5]\nz = u * W", "declare its dims with names"),
    ("z = bf16[D, F]", "to declare an input, write `z: bf16[D, F]`"),
    ("z = ppermute(x, 'X', [(0, 1), (1, 2)])", "write `z = shift_B(x, 1)` to shift elements"),
    ("z = lax.axis_index('X')", "programs have no device index"),
    ("z = x.reshape(B*D)", "write `dims {N = B*D}` and `z[N]_? = x`"),
    ("z = jnp.concatenate([x, v])", "write `dims {T: B+B}` and `z = concat_{B->T}(x, v)`"),
    ("z = jnp.stack([x, x])", "stacked by `stack_K(a, b)`"),
    ("z = lax.top_k(x, 2)", "`top_{E->K}(x)` has the elements"),
    ("z = jnp.split(x, 2)", "`slice_{S->T}(x, 0)`"),
    ("z = jnp.pad(x, 1)", "added by `pad_{S->T}(x, 1)`"),
    ("z = x[2:6]", "write `z = slice_{B->T}(x, 2)`, with `dims {T: 4}`"),
    ("z = x[:, 3]", "write `z = take_D(x, 3)`"),
    ("z = x[0, 1]", "write `z = take_D(take_B(x, 0), 1)`"),
    ("z = x ** 5", "supported powers are"),
    ("z == v", "write a result with a single `=`: `z = v`"),
    ("l: i32[B]\nz = jax.nn.one_hot(l, 8)", "write `z = bf16(onehot_D(l))`"),
    ("z = jnp.arange(D)", "write `z = iota_D`"),
    ("z = jnp.tril(x)", "`where(iota_I >= iota_J, A, 0)`"),
    ("z = jnp.take(x, v)", "rows are looked up by `take_V(E, ids)`"),
    ("for i in range(4):\n    x = relu(x)", "write `repeat 4 {` here and `}` below line 8"),
    ("z = x * W using pipeline()", "write a number of pieces: `pipeline(8)`"),
    ("z = x * W using line by reduce", "write `z = x * W by reduce using line`"),
    ("while True:", "a loop is written `repeat 4 {`"),
    ("def layer(x):\n    return relu(x)", "write `def layer(x) {` here and `}` below line 8"),
    ("import jax", "remove the line"),
    ("if x:", "programs have no branches"),
    ("z = AllGatherr_X(x)", "did you mean `AllGather`?"),
    ("z = Allgather_X(x)", "write `z = AllGather_X(x)`"),
    ("z = ReduceScater_{X,D}(y)", "did you mean `ReduceScatter`?"),
    ("z = all_reduce(y)", "write `z = AllReduce_X(y)`"),
    ("z = matmul(x, W)", "write `z = x * W`"),
    ("z = transpose(x)", "with the dims in the order"),
    ("z = x.T", "with the dims in the order"),
    ("z = with_sharding_constraint(x, P('X', None))", "write `z[B_X, D] = x`"),
    ("z = jax.device_put(x, NamedSharding(mesh, P(None, 'X')))", "write `z[B, D_X] = x`"),
    ("z = all_reduce(y, op=ReduceOp.MAX)", "declare `y[B, D]{MAX_X}`"),
    ("z = dist.all_reduce(y, op=dist.ReduceOp.AVG)", "write `z = AllReduce_X(y) / 4`"),
    ("z = psum(x * W, 'X')", "write `z = x * W`, and the compiler inserts the AllReduce"),
    ("z = x.T @ W", "write `z = x @ W`, without a transposition"),
    ("z = x @ W.transpose()", "write `z = x @ W`, without a transposition"),
    ("z = x @ jnp.transpose(W)", "write `z = x @ W`, without a transposition"),
    ("z = lax.scan(relu, x, length=8)", "a loop is written `repeat 8 {`"),
    ("repeat(4):\n    x = relu(x)", "write `repeat 4 {`"),
    ("repeat 4 do", "a loop is written `repeat 4 {`"),
    (
        "kernel sort(x[B, D]) -> [B, D] shard B flops 20*B*D",
        "write `kernel sort(x[B, D]) -> [B, D], shard B, flops 20*B*D`",
    ),
    (
        "kernel sort(x[B, D]) -> [B, D], shard: B, flop 20*B*D",
        "write `kernel sort(x[B, D]) -> [B, D], shard B, flops 20*B*D`",
    ),
    ("@jax.jit", "remove the decorator"),
    ("f = lambda x: relu(x)", "write `def f(x) { return relu(x) }`"),
    ("def f(x: bf16[B, D], n=4):", "a function is written `def f(x: bf16[B, D], n) {`"),
    ("\"\"\" a comment \"\"\"", "comments begin with `#`"),
    ("-- a comment", "comments begin with `#`"),
    ("z = x[0, :]", "write `z = take_B(x, 0)`"),
    ("z = x[0]", "write `z = take_B(x, 0)`"),
    ("z = x + v[None, :]", "write `z = x + v`: broadcasting aligns dims by name"),
    ("z: bf16['X', None]", "dims are names, with their axes after `_`"),
    ("z = all_gather_X(x)", "write `z = AllGather_X(x)`"),
    ("z = All-Gather_X(x)", "collectives are written in one word"),
    ("z = Scatter_{X,D}(v)", "a slice needs no collective"),
    ("z = sum(x)", "write its dims: `sum_D(x)`, `sum_{B,D}(x)`"),
    ("z = softmax(x)", "write its dim: `softmax_D(x)`"),
    ("z = AllReduce_Y(y)", "the sum is open over `X`; write `AllReduce_X` for `AllReduce_Y`"),
    ("z = AllReduce_X(AllReduce_X(y))", "the sum over `X` is already closed"),
    ("z = AllToAll_X(x)", "`AllToAll_{X,D}`"),
    ("AllToAll_{D->B}(x) -> z[B, D_X]", "the axis comes first, then the dim to shard: `AllToAll_{X,D}`"),
    ("z = y .* y", "both factors are open over `X`"),
    ("z: float8_e4m3fnuz[B, D]", "the 8-bit floats are `f8e4m3`, the `e4m3fn` of JAX, and `f8e5m2`"),
    ("z: byte[B, D]", "write `u8`"),
    ("dims {S: 256}\nz[B, S] = x * W", "no factor has `S`: write `F` for `S` in the result"),
    ("dims {S: 128}\nU: bf16[S, F]\nz[B, F] = x * U", "`x` and `U` share no dim"),
    ("repeat 4x {\nx = relu(x)\n}", "write `repeat 4 {`"),
    ("expect collectives x = [all_gather]", "write `AllGather`, and its axes after `_`"),
    ("repeat 4", "a loop is written `repeat 4 {`"),
    ("repeat 4\n    x = relu(x)", "write `repeat 4 {` here and `}` below line 8"),
    ("z = jnp.sort(x)", "`top_{E->K}(x)` has the `K` largest elements in order"),
    ("z = sort_D(x)", "`argtop_{E->K}(x)` their positions"),
    ("z = scatter_add_D(x, v)", "rows are added by `scatter_V(x, ids)`"),
    (
        "dims {N: 8}\nids: i32[N]\nr: bf16[N, D]\nz = x.at[ids].add(r)",
        "write `z[B, D]_? = x + bf16(onehot_B(ids)) * r`",
    ),
    ("z = x.at[v].set(x)", "`where(iota_V == 3, u, A)` replaces a row"),
    ("z: int2[B, D]", "write `i4` for `int2`: numbers have at least 4 bits"),
    ("z: s4[B, D]", "write `i4` for `s4`; dtypes are"),
    ("z: s64[B, D]", "write `i64` for `s64`; dtypes are"),
    ("z: float4_e2m1fn[B, D]", "the narrowest floats are `f8e4m3` and `f8e5m2`"),
    ("z = flash_attention(x, x, x)", "attention is two products and a softmax"),
    ("z = F.scaled_dot_product_attention(x, x, x)", "`o[B, S, N, H]_? = softmax_T(p / sqrt(H)) * v`"),
    ("z = conv2d(x, W)", "`y = x * W0 + shift_S(x, 1) * W1`"),
    ("z = jax.lax.scan(f, x, None, length=4)", "a loop is written `repeat 4 {`"),
    ("z = torch.nn.Linear(128, 256)", "write `z: bf16[D, F]`, and `x * z` for `z(x)`"),
    ("z = x.reshape(B, 4, 30)", "a dim is split by declaring it as a composite"),
    ("dist.all_reduce(x)", "write `x = AllGather_X(x)` to unshard `B`"),
    ("with mesh:", "remove the line; a program has one mesh"),
    ("with mesh:\n    z = relu(x)", "write `z = relu(x)` for lines 7 to 8: a program has one mesh"),
    ("z = NamedSharding(mesh, P('X'))", "`A: bf16[I_X, J]` for `P('X', None)`"),
    ("z = std_D(x)", "`sqrt(var_D(x))`"),
    ("z = layer_norm_D(x)", "`def layer_norm(x[B, D], g[D]) {`"),
    ("z = sum(x, v)", "write `A + v` to add two arrays"),
    ("l: i32[B]\nz = F.cross_entropy(x, l)", "write `z = logsumexp_D(x) - sum_D(where(l == iota_D, x, 0))`"),
    ("z = ReduceScatter_X,D(y)", "did you mean `ReduceScatter_{X,D}`?"),
    // What does not exist is reported first.
    ("z = relu(x, nosuch)", "unknown array `nosuch`"),
    ("z = relu(x, vv)", "did you mean `v`?"),
    ("z = take_D(nosuch)", "unknown array `nosuch`"),
    ("z = take_Q(x)", "unknown dim `Q`"),
    ("z = max_Q(x, v)", "unknown dim `Q`"),
    ("z = where(x > 0, nosuch)", "unknown array `nosuch`"),
    ("def f(a) { return relu(a) }\nz = f(x, nosuch)", "unknown array `nosuch`"),
    ("AllGather_Q(x, y)", "`Q` is not an axis of the mesh"),
    ("z = AllGather_X(x, nosuch)", "unknown array `nosuch`"),
];

#[test]
fn the_line_that_is_offered_is_right() {
    for (line, offered) in LINES {
        let (_, found) = compiler::check(&format!("{GROUND}{line}\nu = relu(x)\n"));
        let errors: Vec<_> = found.iter().filter(|found| found.code != "unused-array").collect();
        let help = errors.first().and_then(|found| found.help.clone()).unwrap_or_default();
        assert!(help.starts_with(&format!("write `{offered}`")), "{line}: {help} {errors:?}");
        let (program, found) = compiler::check(&format!("{GROUND}{offered}\nu = relu(x)\n"));
        assert!(program.is_some(), "{offered}: {found:?}");
    }
}

/// Words without an equivalent line, and near misses, are answered with a help text.
#[test]
fn other_words_are_answered() {
    for (line, answer) in OTHERS {
        let (_, found) = compiler::check(&format!("{GROUND}{line}\n"));
        let says = |text: &str| text.contains(answer);
        assert!(
            found.iter().any(|found| found.help.as_deref().is_some_and(says) || says(&found.message)),
            "{line}: {found:?}"
        );
    }
}

/// Other names of a profile are reported with the profile and the line; the fix writes it.
#[test]
fn hardware_by_other_names() {
    let check = |hardware: &str| {
        let source = format!("mesh {{X: 4}} on {hardware}\ndims {{I: 4}}\nA: f32[I_X]\nC = relu(A)\n");
        let (_, found) = compiler::check(&source);
        let help = found.iter().find(|found| found.code == "unknown-hardware").and_then(|found| found.help.clone());
        let help = help.unwrap_or_else(|| panic!("{hardware}: {found:?}"));
        (help, advice::apply_one(&source, &found).is_some_and(|fixed| compiler::check(&fixed).0.is_some()))
    };
    for (hardware, near) in [
        ("TPUv5e", "tpu_v5e"),
        ("TPU v5e", "tpu_v5e"),
        ("v5e", "tpu_v5e"),
        ("v5litepod", "tpu_v5e"),
        ("v5p", "tpu_v5p"),
        ("tpuv4", "tpu_v4p"),
        ("TPUv4p", "tpu_v4p"),
        ("v4", "tpu_v4p"),
        ("tpu-v6e", "tpu_v6e"),
        ("Trillium", "tpu_v6e"),
        ("Ironwood", "tpu7x"),
        ("TPU7x", "tpu7x"),
        ("H100", "h100"),
        ("H100-SXM", "h100"),
        ("H100-SXM5-80GB", "h100"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("DGX-H100", "h100"),
        ("H200", "h200"),
        ("A100 80GB", "a100"),
        ("A100-SXM4-40GB", "a100"),
        ("A100-PCIe", "a100"),
        ("B200", "b200"),
        ("NVIDIA-B200", "b200"),
        ("B300", "b300"),
        ("GB200", "gb200"),
        ("GB200-NVL72", "gb200_nvl72"),
        ("GB300", "gb300"),
        ("L40S", "l40s"),
        ("RTX PRO 6000", "rtx_pro_6000"),
        ("MI300X", "mi300x"),
        ("AMD Instinct MI300X", "mi300x"),
        ("Trainium1", "trn1"),
        ("AWS Trainium2", "trn2"),
        ("trn2.48xlarge", "trn2"),
        ("RNGD", "furiosa"),
        ("tpuv5ee", "tpu_v5e"),
        ("hh100", "h100"),
    ] {
        let help = format!("did you mean `{near}`? write `mesh {{X: 4}} on {near}`");
        assert_eq!(check(hardware), (help, true), "{hardware}");
    }
    // Another digit is another machine, and no generation is guessed.
    for hardware in ["B100", "V100", "tpu_v99", "TPU", "H800", "MI250X", "gpu"] {
        let (help, is_fixed) = check(hardware);
        assert!(!help.starts_with("did you mean") && !is_fixed, "{hardware}: {help}");
    }
}

/// Slips of notation are corrected: the line is offered, and `check --fix` writes it.
#[test]
fn slips_are_corrected() {
    let mut written = 0;
    for (line, corrected) in [
        ("mesh X: 4, Y: 2 on tpu_v5e", "mesh {X: 4, Y: 2} on tpu_v5e"),
        ("mesh (X: 4, Y: 2) on tpu_v5e", "mesh {X: 4, Y: 2} on tpu_v5e"),
        ("mesh {4, 2} on tpu_v5e", "mesh {X: 4, Y: 2} on tpu_v5e"),
        ("mesh {X = 4, Y = 2}", "mesh {X: 4, Y: 2}"),
        ("mesh {X: 4 Y: 2}", "mesh {X: 4, Y: 2}"),
        ("mesh = init_device_mesh(\"cuda\", (4, 2), mesh_dim_names=(\"X\", \"Y\"))", "mesh {X: 4, Y: 2} on h100"),
        ("dims = {I: 64, J: 64}", "dims {I: 64, J: 64}"),
        ("dims: {I: 64, J: 64}", "dims {I: 64, J: 64}"),
        ("dims I: 64, J: 64", "dims {I: 64, J: 64}"),
        ("dims {I = 64, J = 64}", "dims {I: 64, J: 64}"),
        ("dims {I: 4,096, J: 4K}", "dims {I: 4096, J: 4k}"),
        ("I, J = 64, 64", "dims {I: 64, J: 64}"),
        ("A: bf16[I/X, J]", "A: bf16[I_X, J]"),
        ("A: bf16[I@X, J]", "A: bf16[I_X, J]"),
        ("A: bf16[I^X, J]", "A: bf16[I_X, J]"),
        ("A: bf16[I_X J]", "A: bf16[I_X, J]"),
        ("A: bf16[I_X, J", "A: bf16[I_X, J]"),
        ("A: bf16[I_X, J,]", "A: bf16[I_X, J]"),
        ("A: bf16[I, J][X, None]", "A: bf16[I_X, J]"),
        ("A: bf16[I, J] (Shard(0), Replicate())", "A: bf16[I_X, J]"),
        ("A: bf16[I, J] (Replicate(), Shard(0))", "A: bf16[I_Y, J]"),
        ("A: bf16[I, J] = P('X', None)", "A: bf16[I_X, J]"),
        ("A: DTensor(bf16[I, J], placements=[Shard(0)])", "A: bf16[I_X, J]"),
        ("A: torch.bfloat16[I_X, J]", "A: bf16[I_X, J]"),
        ("A: [I_X, J] bf16", "A: bf16[I_X, J]"),
        ("A bf16[I_X, J]", "A: bf16[I_X, J]"),
        ("A[I_X, J]: bf16", "A: bf16[I_X, J]"),
        ("let A: bf16[I_X, J]", "A: bf16[I_X, J]"),
        ("A: bf16[I_X, J] donate", "A: bf16[I_X, J] donated"),
        ("C[I, J]U_X = A *_LOCAL W", "C[I, J]{U_X} = A *_LOCAL W"),
        ("C[I_X, J] = A[I_X, J], B[I_X, J]", "C[I_X, J] = A[I_X, J] * B[I_X, J]"),
        ("C[I_X, J] = A[I_X, J] B[I_X, J]", "C[I_X, J] = A[I_X, J] * B[I_X, J]"),
        ("A += B", "A = A + B"),
        ("A => C[I, J]", "A -> C[I, J]"),
        ("C = A – 1", "C = A - 1"),
        ("C = AllGather[X](A)", "C = AllGather_X(A)"),
        ("expect C = AllReduce_X", "expect collectives C = [AllReduce_X]"),
        ("expect collectives C == [AllReduce_X]", "expect collectives C = [AllReduce_X]"),
        ("expect communication == 0", "expect no communication"),
        ("expect no collectives", "expect no communication"),
        ("expect comm < 1MB", "expect communication < 1MB"),
        ("assert memory < 1GB", "expect memory < 1GB"),
        ("limit hbm 16GB", "limit memory 16GB"),
        ("limit memory = 16GB", "limit memory 16GB"),
        ("output(C)", "output C"),
        ("print(C)", "output C"),
        ("mesh {X: 4, Y: 2} on \"tpu_v5e\"", "mesh {X: 4, Y: 2} on tpu_v5e"),
    ] {
        let ground = match corrected.split(' ').next() {
            Some("mesh") => "",
            Some("dims") => "mesh {X: 4, Y: 2}\n",
            Some("A:") => "mesh {X: 4, Y: 2}\ndims {I: 64, J: 64}\n",
            _ => {
                "mesh {X: 4, Y: 2}\ndims {I: 64, J: 64, K: 64}\nA: bf16[I_X, J]\nB: bf16[I_X, J]\nC: bf16[I, J]{U_X}\n"
            }
        };
        let source = format!("{ground}{line}\n");
        let (_, found) = compiler::check(&source);
        let errors: Vec<_> = found.iter().filter(|found| found.severity == Severity::Error).collect();
        assert_eq!(errors.len(), 1, "{line}: {errors:?}");
        assert_eq!(errors[0].help.as_deref(), Some(format!("write `{corrected}`").as_str()), "{line}");
        let fixed = advice::apply_one(&source, &found);
        assert!(fixed.as_ref().is_none_or(|fixed| fixed.contains(corrected)), "{line}: {fixed:?}");
        written += usize::from(fixed.is_some());
    }
    assert!(written >= 35, "{written} lines are fixes");
    // A dim and its axis in each other's place.
    for (line, corrected) in [
        ("A: bf16[X_I, J]", "A: bf16[I_X, J]"),
        ("A: bf16[I_X_Y, J]", "A: bf16[I_{X,Y}, J]"),
        ("A: BF16[I_X, J]", "A: bf16[I_X, J]"),
        ("A: bf16[I, J]{P_X}", "A: bf16[I, J]{U_X}"),
    ] {
        let source = format!("mesh {{X: 4, Y: 2}}\ndims {{I: 64, J: 64}}\n{line}\nC[I, J] = A\n");
        let (_, found) = compiler::check(&source);
        let fixed = advice::apply_one(&source, &found).unwrap_or_default();
        assert_eq!(fixed, source.replace(line, corrected), "{found:?}");
    }
}

/// Every line that a help offers was a change that the checker accepts: applied, the statement has no error.
#[test]
fn offered_lines_check() {
    let ground = |line: &str| format!("{GROUND}{line}\nu = relu(x)\n");
    let lines = LINES.iter().map(|(line, _)| ground(line)).chain(OTHERS.iter().map(|(line, _)| ground(line)));
    let (mut tried, mut whole) = (0, 0);
    for source in foreign_programs().into_iter().chain(lines) {
        let (_, found) = compiler::check(&source);
        let syntax_errors = parse(&source).1.count(Severity::Error);
        for error in found.iter().filter(|found| found.severity == Severity::Error) {
            let help = error.help.as_deref().unwrap_or_default();
            let is_ours = ["foreign-syntax", "unexpected-text"].contains(&error.code.as_str());
            // What stands in backticks after `write` is a change, not an example.
            let written = help.starts_with("write `") && is_ours;
            assert!(!written || !error.fixes.is_empty(), "{source}{help}");
            assert!(written || !is_ours || !help.contains("write `"), "{source}{help}");
            for fix in &error.fixes {
                let Edit::Replace(at) = fix.edit else { continue };
                let changed = fix.apply(&source, at);
                let place = at.range().start..at.range().start + fix.text.len();
                let (program, left) = compiler::check(&changed);
                let is_inside =
                    |left: &&Diagnostic| left.severity == Severity::Error && place.contains(&left.span().range().start);
                let wrong: Vec<_> = left.iter().filter(is_inside).filter(|left| left.code != "no-result").collect();
                assert!(wrong.is_empty(), "{changed}{wrong:?}");
                assert!(parse(&changed).1.count(Severity::Error) <= syntax_errors, "{changed}");
                tried += 1;
                whole += usize::from(program.is_some());
            }
        }
    }
    assert!(tried >= 200 && whole >= 180, "{tried} lines, {whole} whole programs");
}

/// What follows from a mistake that is reported is not reported again.
#[test]
fn one_foreign_statement_brings_one_report() {
    for source in [
        "for i in range(4) {\n    x = relu(x)\n}\noutput x",
        "if X > 1 {\n    x = AllGather_X(x)\n}\noutput x",
        "def f(x) {\n    return relu(x), gelu(x)\n}\nz = f(x)",
        "def f(x: bf16[B, D]) -> bf16[B, D] {\n    return relu(x)\n}\nz = f(x)",
        "f = lambda x: relu(x)\nz = f(x)",
    ] {
        let (_, found) = compiler::check(&format!("{GROUND}{source}\n"));
        let errors: Vec<_> = found.iter().filter(|found| found.severity == Severity::Error).collect();
        assert_eq!(errors.len(), 1, "{source}: {errors:?}");
    }
}
