//! Links of a fabric as a profile lists them.

use super::quantity;
use crate::units::Rate;
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// An end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// A device, numbered in mesh order.
    Device(u32),
    /// A switch, by name.
    Switch(String),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Device(number) => write!(f, "{number}"),
            End::Switch(name) => f.write_str(name),
        }
    }
}

impl<'de> Deserialize<'de> for End {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<End, D::Error> {
        struct Ends;
        impl Visitor<'_> for Ends {
            type Value = End;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the number of a device or the name of a switch")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<End, E> {
                let device = u32::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))?;
                Ok(End::Device(device))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<End, E> {
                let device =
                    u32::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))?;
                Ok(End::Device(device))
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<End, E> {
                Ok(End::Switch(name.to_owned()))
            }
        }
        deserializer.deserialize_any(Ends)
    }
}

impl Serialize for End {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            End::Device(number) => serializer.serialize_u32(*number),
            End::Switch(name) => serializer.serialize_str(name),
        }
    }
}

/// Links of a profile with the same rate and latency.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Links {
    /// Pairs of ends with a link in each direction.
    #[serde(default)]
    pub between: Vec<[End; 2]>,
    /// Pairs of ends with a link from the first to the second.
    #[serde(default)]
    pub from_to: Vec<[End; 2]>,
    /// Bytes per second in one direction; that of the network by default.
    #[serde(default, deserialize_with = "quantity::some_bandwidth")]
    pub one_way: Option<Rate>,
    /// Latency in picoseconds; that of the network by default.
    #[serde(default, deserialize_with = "quantity::some_time")]
    pub hop_latency: Option<u64>,
}
