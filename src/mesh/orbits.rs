//! Orbits of devices under translations along some axes.

use super::{AxisId, AxisSet, DeviceId, Mesh};

/// The devices of a mesh up to translation along some axes. The device at coordinate 0 along these axes represents its
/// orbit; without such axes every device represents itself.
#[derive(Clone, Debug)]
pub struct Orbits {
    axes: AxisSet,
    representatives: Vec<DeviceId>,
    /// For each remaining axis: its stride in the mesh, its size, and its stride among the representatives.
    left: Vec<(u32, u32, u32)>,
}

impl Orbits {
    /// Orbits under translations along these axes.
    pub fn new(mesh: &Mesh, axes: AxisSet) -> Orbits {
        let kept = mesh.axis_ids().filter(|axis| !axes.contains(*axis));
        let mut left: Vec<(u32, u32, u32)> = kept.map(|axis| (mesh.stride(axis), mesh.axis(axis).size, 1)).collect();
        let mut count = 1;
        for (_, size, stride) in left.iter_mut().rev() {
            *stride = count;
            count *= *size;
        }
        let device =
            |class: u32| DeviceId(left.iter().map(|(stride, size, among)| class / among % size * stride).sum());
        Orbits { axes, representatives: (0..count).map(device).collect(), left }
    }

    /// The axes of the translations.
    pub fn axes(&self) -> AxisSet {
        self.axes
    }

    /// The representatives, in order.
    pub fn representatives(&self) -> &[DeviceId] {
        &self.representatives
    }

    /// Index of a device's representative.
    pub fn class(&self, device: DeviceId) -> usize {
        if self.axes.is_empty() {
            return device.index();
        }
        let places = self.left.iter().map(|(stride, size, among)| device.0 / stride % size * among);
        places.sum::<u32>() as usize
    }

    /// Translation of a device relative to its representative, along each axis.
    pub fn offsets<'a>(&'a self, mesh: &'a Mesh, device: DeviceId) -> impl Iterator<Item = (AxisId, u32)> + 'a {
        self.axes.iter().map(move |axis| (axis, mesh.coordinate(device, axis))).filter(|(_, offset)| *offset > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_is_an_image_of_its_representative() {
        let mesh = Mesh::of(&[("X", 3), ("Y", 2), ("Z", 4)]);
        let all: AxisSet = mesh.axis_ids().collect();
        for axes in all.subsets().chain([AxisSet::NONE]) {
            let orbits = Orbits::new(&mesh, axes);
            let count = mesh.device_count() as u64 / axes.group_size(&mesh);
            assert_eq!(orbits.representatives().len() as u64, count);
            assert!(orbits.representatives().is_sorted());
            for device in mesh.devices() {
                let representative = orbits.representatives()[orbits.class(device)];
                let image = orbits
                    .offsets(&mesh, device)
                    .fold(representative, |image, (axis, offset)| mesh.with_coordinate(image, axis, offset));
                assert_eq!(image, device);
                assert!(axes.iter().all(|axis| mesh.coordinate(representative, axis) == 0));
            }
        }
    }
}
