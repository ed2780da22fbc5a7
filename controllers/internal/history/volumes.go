package history

import (
	corev1 "k8s.io/api/core/v1"
)

// completeVolume fills in the defaults of one volume. A volume of no type is an empty directory.
func completeVolume(v *corev1.VolumeSource) {
	if *v == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if v.Secret != nil {
		presetPointer(&v.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	}
	if v.ConfigMap != nil {
		presetPointer(&v.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	}
	if v.DownwardAPI != nil {
		presetPointer(&v.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		completeFiles(v.DownwardAPI.Items)
	}
	if v.HostPath != nil {
		presetPointer(&v.HostPath.Type, corev1.HostPathUnset)
	}
	if v.Image != nil {
		preset(&v.Image.PullPolicy, pullPolicy(v.Image.Reference))
	}
	if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
		claim := &v.Ephemeral.VolumeClaimTemplate.Spec
		presetPointer(&claim.VolumeMode, corev1.PersistentVolumeFilesystem)
		roundUp(claim.Resources.Limits, claim.Resources.Requests)
	}
	completeProjected(v.Projected)
	completeLegacy(v)
}

func completeFiles(files []corev1.DownwardAPIVolumeFile) {
	for i := range files {
		completeFieldRef(files[i].FieldRef)
	}
}

func completeProjected(p *corev1.ProjectedVolumeSource) {
	if p == nil {
		return
	}
	presetPointer(&p.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
	for i := range p.Sources {
		if d := p.Sources[i].DownwardAPI; d != nil {
			completeFiles(d.Items)
		}
		if t := p.Sources[i].ServiceAccountToken; t != nil {
			presetPointer(&t.ExpirationSeconds, 3600)
		}
	}
}

// completeLegacy fills in the defaults of volumes that drivers of their own have replaced.
func completeLegacy(v *corev1.VolumeSource) {
	if d := v.ISCSI; d != nil {
		preset(&d.ISCSIInterface, "default")
	}
	if d := v.RBD; d != nil {
		preset(&d.RBDPool, "rbd")
		preset(&d.RadosUser, "admin")
		preset(&d.Keyring, "/etc/ceph/keyring")
	}
	if d := v.AzureDisk; d != nil {
		presetPointer(&d.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		presetPointer(&d.FSType, "ext4")
		presetPointer(&d.ReadOnly, false)
		presetPointer(&d.Kind, corev1.AzureSharedBlobDisk)
	}
	if d := v.ScaleIO; d != nil {
		preset(&d.StorageMode, "ThinProvisioned")
		preset(&d.FSType, "xfs")
	}
}
