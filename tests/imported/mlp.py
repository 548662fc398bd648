"""A function and its arguments, as `python -m shardc.jax mlp:example` takes them; the devices are forced."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import models


def mlp(params, x):
    """An MLP whose rows are sharded over both axes outside of it."""
    hidden = jax.nn.relu(models.constrain(x, "data") @ params["up"])
    return models.constrain(hidden @ params["down"], ("data", "model"))


def example():
    params = dict(up=models.spec((256, 1024), None, "model"), down=models.spec((1024, 256), "model"))
    return mlp, params, models.spec((512, 256), ("data", "model"))
