"""Twelve models in plain JAX, and a function of other operations: what `shardc import` is tested on.

Each builder takes a size, "small" (to be computed) or "real" (to be planned), and returns a function, its arguments as
`jax.ShapeDtypeStruct`, and the range of its integer arguments.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
bf16, f32, i32 = jnp.bfloat16, jnp.float32, jnp.int32


def spec(shape, *axes, dtype=f32):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*axes)))


def constrain(x, *axes):
    return lax.with_sharding_constraint(x, NamedSharding(mesh, P(*axes)))


def layer_norm(x, scale, bias):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-5) * scale + bias


def rms_norm(x, scale):
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def rope(x, start=0):
    half = x.shape[-1] // 2
    rates = 1.0 / 10000 ** (jnp.arange(half) / half)
    angles = (start + jnp.arange(x.shape[1]))[:, None] * rates
    cos, sin = jnp.cos(angles)[None, :, None], jnp.sin(angles)[None, :, None]
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def attention(q, k, v, mask=None):
    groups = q.shape[2] // k.shape[2]
    k, v = jnp.repeat(k, groups, 2), jnp.repeat(v, groups, 2)
    scores = jnp.einsum("bsnh,btnh->bnst", q, k) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = jnp.where(mask, scores, -1e9)
    return jnp.einsum("bnst,btnh->bsnh", jax.nn.softmax(scores), v)


def heads(x, n):
    return x.reshape(*x.shape[:2], n, -1)


def causal(s):
    return jnp.tril(jnp.ones((s, s), bool))


def gpt2(size):
    B, S, D, N, L, V = (4, 8, 16, 4, 2, 32) if size == "small" else (32, 1024, 1600, 20, 48, 50304)

    def block(x, w):
        h = layer_norm(x, w["g1"], w["b1"])
        q, k, v = jnp.split(h @ w["qkv"] + w["bqkv"], 3, -1)
        o = attention(heads(q, N), heads(k, N), heads(v, N), causal(S)).reshape(B, S, D)
        x = x + o @ w["out"] + w["bout"]
        h = layer_norm(x, w["g2"], w["b2"])
        return x + jax.nn.gelu(h @ w["up"] + w["bup"]) @ w["down"] + w["bdown"], None

    def forward(params, ids):
        x = params["wte"][ids] + params["wpe"]
        x, _ = lax.scan(block, x, params["layers"])
        return layer_norm(x, params["g"], params["b"]) @ params["wte"].T

    layers = dict(
        g1=spec((L, D)), b1=spec((L, D)), g2=spec((L, D)), b2=spec((L, D)),
        qkv=spec((L, D, 3 * D), None, None, "model"), bqkv=spec((L, 3 * D), None, "model"),
        out=spec((L, D, D), None, "model", None), bout=spec((L, D)),
        up=spec((L, D, 4 * D), None, None, "model"), bup=spec((L, 4 * D), None, "model"),
        down=spec((L, 4 * D, D), None, "model", None), bdown=spec((L, D)),
    )
    params = dict(wte=spec((V, D), "model"), wpe=spec((S, D)), g=spec((D,)), b=spec((D,)), layers=layers)
    return forward, (params, spec((B, S), "data", dtype=i32)), V


def llama_layer(x, w, n, kv, start=0, cache=None):
    h = rms_norm(x, w["g1"])
    q, k, v = (heads(h @ w[name], count) for name, count in (("wq", n), ("wk", kv), ("wv", kv)))
    q, k = rope(q, start), rope(k, start)
    mask = causal(x.shape[1])
    if cache is not None:
        k, v = (lax.dynamic_update_slice(old, new, (0, start, 0, 0)) for old, new in zip(cache, (k, v)))
        mask = jnp.arange(k.shape[1]) <= start
    o = attention(q, k, v, mask).reshape(*x.shape[:2], -1)
    x = x + o @ w["wo"]
    h = rms_norm(x, w["g2"])
    return x + (jax.nn.silu(h @ w["w1"]) * (h @ w["w3"])) @ w["w2"], (k, v)


def llama_params(D, F, NH, KH, L, V):
    layers = dict(
        g1=spec((L, D)), g2=spec((L, D)),
        wq=spec((L, D, NH), None, None, "model"), wk=spec((L, D, KH), None, None, "model"),
        wv=spec((L, D, KH), None, None, "model"), wo=spec((L, NH, D), None, "model", None),
        w1=spec((L, D, F), None, None, "model"), w3=spec((L, D, F), None, None, "model"),
        w2=spec((L, F, D), None, "model", None),
    )
    return dict(embed=spec((V, D), "model"), norm=spec((D,)), head=spec((D, V), None, "model"), layers=layers)


def llama(size, real):
    B, S, D, F, N, K, H, L, V = (4, 8, 16, 32, 4, 2, 4, 2, 32) if size == "small" else real

    def forward(params, ids):
        x = params["embed"][ids]
        x, _ = lax.scan(lambda x, w: (llama_layer(x, w, N, K)[0], None), x, params["layers"])
        return rms_norm(x, params["norm"]) @ params["head"]

    return forward, (llama_params(D, F, N * H, K * H, L, V), spec((B, S), "data", dtype=i32)), V


def llama_8b(size):
    return llama(size, (8, 4096, 4096, 14336, 32, 8, 128, 32, 128256))


def llama_70b(size):
    return llama(size, (8, 4096, 8192, 28672, 64, 8, 128, 80, 128256))


def decode(size):
    B, T, D, F, N, K, H, L, V = (
        (4, 8, 16, 32, 4, 2, 4, 2, 32) if size == "small" else (32, 4096, 4096, 14336, 32, 8, 128, 32, 128256)
    )

    def step(params, cache, ids, start):
        x = params["embed"][ids]

        def block(x, layer):
            w, k, v = layer
            x, cache = llama_layer(x, w, N, K, start, (k, v))
            return x, cache

        x, cache = lax.scan(block, x, (params["layers"], *cache))
        return rms_norm(x, params["norm"]) @ params["head"], cache

    cache = tuple(spec((L, B, T, K, H), None, "data", None, "model") for _ in range(2))
    ids, start = spec((B, 1), "data", dtype=i32), jax.ShapeDtypeStruct((), i32)
    return step, (llama_params(D, F, N * H, K * H, L, V), cache, ids, start), 8


# Rates of both moments, of learning and of decay.
ADAM = 0.9, 0.99, 1e-2, 0.1


def train(size):
    B, S, D, F, N, K, H, L, V = (
        (4, 8, 16, 32, 4, 2, 4, 2, 32) if size == "small" else (16, 2048, 4096, 14336, 32, 8, 128, 32, 128256)
    )

    def loss(params, ids, labels):
        @jax.checkpoint
        def block(x, w):
            return llama_layer(x, w, N, K)[0], None

        x, _ = lax.scan(block, params["embed"][ids], params["layers"])
        logits = rms_norm(x, params["norm"]) @ params["head"]
        picked = jnp.take_along_axis(logits, labels[..., None], -1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(logits, -1) - picked)

    def step(params, m, v, ids, labels):
        value, grads = jax.value_and_grad(loss)(params, ids, labels)
        first, second, rate, decay = ADAM
        m = jax.tree.map(lambda m, g: first * m + (1 - first) * g, m, grads)
        v = jax.tree.map(lambda v, g: second * v + (1 - second) * g * g, v, grads)
        new = jax.tree.map(lambda p, m, v: p - rate * (m / (jnp.sqrt(v) + 1e-8) + decay * p), params, m, v)
        return value, new, m, v

    params = llama_params(D, F, N * H, K * H, L, V)
    ids = spec((B, S), "data", dtype=i32)
    return step, (params, params, params, ids, ids), V


def mixtral(size):
    B, S, D, F, E = (4, 8, 16, 32, 4) if size == "small" else (8, 2048, 4096, 14336, 8)

    def moe(w, x):
        weights, chosen = lax.top_k(x @ w["router"], 2)
        weights = jax.nn.softmax(weights)
        gates = (jax.nn.one_hot(chosen, E) * weights[..., None]).sum(-2)
        hidden = jax.nn.silu(jnp.einsum("bsd,edf->ebsf", x, w["w1"])) * jnp.einsum("bsd,edf->ebsf", x, w["w3"])
        return jnp.einsum("ebsf,efd,bse->bsd", hidden, w["w2"], gates)

    w = dict(
        router=spec((D, E)), w1=spec((E, D, F), "model"), w3=spec((E, D, F), "model"), w2=spec((E, F, D), "model")
    )
    return moe, (w, spec((B, S, D), "data")), 0


def vit(size):
    B, I, Q, D, N, L = (4, 8, 2, 16, 4, 2) if size == "small" else (64, 224, 14, 1280, 16, 32)
    S = (I // Q) ** 2

    def block(x, w):
        h = layer_norm(x, w["g1"], w["b1"])
        q, k, v = (heads(h @ w[name], N) for name in ("wq", "wk", "wv"))
        x = x + attention(q, k, v).reshape(B, S, D) @ w["wo"]
        return x + jax.nn.gelu(layer_norm(x, w["g2"], w["b2"]) @ w["up"]) @ w["down"], None

    def forward(params, images):
        x = images.reshape(B, I // Q, Q, I // Q, Q, 3).transpose(0, 1, 3, 2, 4, 5).reshape(B, S, Q * Q * 3)
        x, _ = lax.scan(block, x @ params["patch"] + params["pos"], params["layers"])
        return x.mean(1) @ params["head"]

    column, row = (spec((L, D, D), None, None, "model"), spec((L, D, D), None, "model"))
    norm = spec((L, D))
    layers = dict(
        g1=norm, b1=norm, g2=norm, b2=norm, wq=column, wk=column, wv=column, wo=row,
        up=spec((L, D, 4 * D), None, None, "model"), down=spec((L, 4 * D, D), None, "model"),
    )
    params = dict(patch=spec((Q * Q * 3, D)), pos=spec((S, D)), head=spec((D, 8)), layers=layers)
    return forward, (params, spec((B, I, I, 3), "data")), 0


def t5(size):
    B, S, T, D, N, H, F = (4, 8, 12, 16, 4, 4, 32) if size == "small" else (16, 512, 512, 4096, 64, 64, 10240)

    def cross(w, x, memory, buckets):
        h = rms_norm(x, w["g1"])
        q, k, v = heads(h @ w["wq"], N), heads(h @ w["wk"], N), heads(h @ w["wv"], N)
        bias = w["bias"][buckets].transpose(2, 0, 1)
        scores = jnp.where(causal(S), jnp.einsum("bsnh,btnh->bnst", q, k) + bias, -1e9)
        x = x + jnp.einsum("bnst,btnh->bsnh", jax.nn.softmax(scores), v).reshape(B, S, N * H) @ w["wo"]
        q, k, v = heads(rms_norm(x, w["g2"]) @ w["cq"], N), heads(memory @ w["ck"], N), heads(memory @ w["cv"], N)
        x = x + attention(q, k, v).reshape(B, S, N * H) @ w["co"]
        return x + jax.nn.relu(rms_norm(x, w["g3"]) @ w["up"]) @ w["down"]

    column, row = spec((D, N * H), None, "model"), spec((N * H, D), "model")
    w = dict(
        g1=spec((D,)), g2=spec((D,)), g3=spec((D,)), bias=spec((32, N), None, "model"),
        wq=column, wk=column, wv=column, wo=row, cq=column, ck=column, cv=column, co=row,
        up=spec((D, F), None, "model"), down=spec((F, D), "model"),
    )
    return cross, (w, spec((B, S, D), "data"), spec((B, T, D), "data"), jax.ShapeDtypeStruct((S, S), i32)), 32


def dlrm(size):
    B, V, D, T, C = (8, 32, 8, 3, 5) if size == "small" else (65536, 1 << 20, 128, 26, 13)

    def forward(params, dense, ids):
        x = jax.nn.relu(dense @ params["bottom"])
        rows = [params["tables"][t][ids[:, t]] for t in range(T)]
        both = jnp.stack([x, *rows], 1)
        pairs = jnp.einsum("bid,bjd->bij", both, both).reshape(B, -1)
        return jax.nn.sigmoid(jnp.concatenate([x, pairs], 1) @ params["top"])

    params = dict(
        bottom=spec((C, D)), tables=[spec((V, D), "model") for _ in range(T)], top=spec((D + (T + 1) ** 2, 1))
    )
    return forward, (params, spec((B, C), "data"), spec((B, T), "data", dtype=i32)), V


def mamba2(size):
    B, C, L, N, H, Q = (4, 3, 4, 2, 4, 4) if size == "small" else (8, 32, 128, 64, 64, 128)

    def chunks(x, a, b, c):
        total = jnp.cumsum(a, 2)
        decay = total[:, :, :, None] - total[:, :, None]
        decay = jnp.where(causal(L)[:, :, None], jnp.exp(decay), 0)
        inside = jnp.einsum("zcls,zclsn,zcsnh->zclnh", jnp.einsum("zclq,zcsq->zcls", c, b), decay, x)
        states = jnp.einsum("zcsq,zcsn,zcsnh->zcnhq", b, jnp.exp(total[:, :, -1:] - total), x)

        def carry(state, chunk):
            new, last = chunk
            return state * jnp.exp(last)[..., None, None] + new, state

        order = states.transpose(1, 0, 2, 3, 4), total[:, :, -1].transpose(1, 0, 2)
        _, before = lax.scan(carry, jnp.zeros((B, N, H, Q)), order)
        return inside + jnp.einsum("zclq,zcln,czNhq->zclnh".replace("N", "n"), c, jnp.exp(total), before)

    of_state = spec((B, C, L, Q), "data")
    return chunks, (spec((B, C, L, N, H), "data", None, None, "model"), spec((B, C, L, N), "data", None, None, "model"), of_state, of_state), 0


def mixer(size):
    B, S, D, T, F, L = (4, 8, 16, 16, 32, 2) if size == "small" else (256, 196, 1024, 512, 4096, 24)

    def block(x, w):
        y = layer_norm(x, w["g1"], w["b1"]).transpose(0, 2, 1)
        x = x + (jax.nn.gelu(y @ w["t1"]) @ w["t2"]).transpose(0, 2, 1)
        return x + jax.nn.gelu(layer_norm(x, w["g2"], w["b2"]) @ w["c1"]) @ w["c2"], None

    def forward(layers, x):
        return lax.scan(block, x, layers)[0].mean(1)

    norm = spec((L, D))
    layers = dict(
        g1=norm, b1=norm, g2=norm, b2=norm, t1=spec((L, S, T)), t2=spec((L, T, S)),
        c1=spec((L, D, F), None, None, "model"), c2=spec((L, F, D), None, "model"),
    )
    return forward, (layers, spec((B, S, D), "data")), 0


def vocab_loss(size):
    B, D, V = (8, 16, 64) if size == "small" else (8192, 4096, 128256)

    def loss(head, x, labels):
        logits = constrain(x @ head, "data", "model")
        top = lax.stop_gradient(logits.max(-1, keepdims=True))
        norm = jnp.log(jnp.exp(logits - top).sum(-1)) + top[:, 0]
        picked = jnp.where(labels[:, None] == jnp.arange(V), logits, 0).sum(-1)
        return (norm - picked).mean()

    def both(head, x, labels):
        return jax.value_and_grad(loss, (0, 1))(head, x, labels)

    return both, (spec((D, V), None, "model"), spec((B, D), "data"), spec((B,), "data", dtype=i32)), V


def operations(size):
    """No model: the operations that the others do not use, or not in every form."""

    def all_of_them(x, y, start):
        picked, places = lax.top_k(x, 3)
        moved = lax.dynamic_update_slice(x, y[:2, :3], (start, 2))
        return dict(
            reverse=jnp.flip(x, 1),
            clamp=jnp.clip(x, -0.25, 0.25),
            joined=jnp.concatenate([x, y[:, :5], x[:, 1:4]], 1),
            padded=jnp.pad(x, ((0, 0), (2, 1)), constant_values=3.0),
            spread=lax.pad(x, jnp.float32(0), ((0, 0, 0), (1, 2, 2))),
            cut=lax.pad(x, jnp.float32(0), ((-1, 0, 0), (2, -3, 0))),
            strided=x[1:7:2, ::3],
            window=lax.dynamic_slice(x, (start, 1), (3, 5)),
            moved=moved,
            rolled=jnp.roll(x, 3, 1),
            xor=jnp.logical_xor(x > 0, y > 0).astype(f32),
            same=((x > 0) == (y > 0)).astype(f32),
            sign=jnp.sign(x),
            power=(jnp.abs(x) + 1) ** y,
            expm1=jnp.expm1(x) + jnp.log1p(jnp.abs(y)),
            back=lax.cumsum(x, 1, reverse=True),
            most=lax.cummax(x, 0) - lax.cummin(y, 1),
            least=x.min(0),
            some=jnp.any(x > y, 1).astype(f32) + jnp.all(x > -1, 1),
            picked=picked,
            places=places.astype(f32),
            along=jnp.take_along_axis(x, places, 1),
            listed=x[:, :4] * jnp.array([1.0, -2.0, 3.0, 0.5]),
            added=jnp.zeros((8, 12)).at[places[:, 0]].add(x),
            own=x[(x[:, 0] > 0).astype(i32) * 3],
            own_added=x.at[(x[:, 0] > 0).astype(i32) * 3].add(y),
            unequal=((x > 0) != False).astype(f32) + ((y > 0) == False),
            square=x[:, :8] @ x[:, :8] + x[:, :8].T,
            split=x.reshape(2, 4, 12).transpose(1, 0, 2).reshape(4, 24),
        )

    return all_of_them, (spec((8, 12), "data"), spec((8, 12), None, "model"), jax.ShapeDtypeStruct((), i32)), 4


MODELS = dict(
    gpt2=gpt2, llama_8b=llama_8b, llama_70b=llama_70b, decode=decode, train=train, mixtral=mixtral, vit=vit, t5=t5,
    dlrm=dlrm, mamba2=mamba2, mixer=mixer, vocab_loss=vocab_loss, operations=operations,
)

# The argument of a model that is a mean of squares: its numbers are positive. Near zero, a step would divide by rounding.
SQUARES = dict(train=2)


@functools.cache
def lowered(name, size):
    function, arguments, most = MODELS[name](size)
    return jax.jit(function).lower(*arguments), function, arguments, most
