package history

import (
	corev1 "k8s.io/api/core/v1"
)

// defaultVolume sets the defaults of one volume. A volume without a source is an emptyDir.
func defaultVolume(v *corev1.VolumeSource) {
	if *v == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if v.Secret != nil {
		setDefaultPointer(&v.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	}
	if v.ConfigMap != nil {
		setDefaultPointer(&v.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	}
	if v.DownwardAPI != nil {
		setDefaultPointer(&v.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		defaultFiles(v.DownwardAPI.Items)
	}
	if v.HostPath != nil {
		setDefaultPointer(&v.HostPath.Type, corev1.HostPathUnset)
	}
	if v.Image != nil {
		setDefault(&v.Image.PullPolicy, pullPolicy(v.Image.Reference))
	}
	if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
		claim := &v.Ephemeral.VolumeClaimTemplate.Spec
		setDefaultPointer(&claim.VolumeMode, corev1.PersistentVolumeFilesystem)
		roundUp(claim.Resources.Limits, claim.Resources.Requests)
	}
	defaultProjected(v.Projected)
	defaultLegacy(v)
}

func defaultFiles(files []corev1.DownwardAPIVolumeFile) {
	for i := range files {
		defaultFieldRef(files[i].FieldRef)
	}
}

func defaultProjected(p *corev1.ProjectedVolumeSource) {
	if p == nil {
		return
	}
	setDefaultPointer(&p.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
	for i := range p.Sources {
		if d := p.Sources[i].DownwardAPI; d != nil {
			defaultFiles(d.Items)
		}
		if t := p.Sources[i].ServiceAccountToken; t != nil {
			setDefaultPointer(&t.ExpirationSeconds, 3600)
		}
	}
}

// defaultLegacy sets the defaults of the in-tree volume types that CSI drivers have replaced.
func defaultLegacy(v *corev1.VolumeSource) {
	if d := v.ISCSI; d != nil {
		setDefault(&d.ISCSIInterface, "default")
	}
	if d := v.RBD; d != nil {
		setDefault(&d.RBDPool, "rbd")
		setDefault(&d.RadosUser, "admin")
		setDefault(&d.Keyring, "/etc/ceph/keyring")
	}
	if d := v.AzureDisk; d != nil {
		setDefaultPointer(&d.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		setDefaultPointer(&d.FSType, "ext4")
		setDefaultPointer(&d.ReadOnly, false)
		setDefaultPointer(&d.Kind, corev1.AzureSharedBlobDisk)
	}
	if d := v.ScaleIO; d != nil {
		setDefault(&d.StorageMode, "ThinProvisioned")
		setDefault(&d.FSType, "xfs")
	}
}
