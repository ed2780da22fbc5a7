package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// provisioning makes upstream's volume binder serve the class below: it makes volumes that are folders of this machine,
// which stay empty as no container runs.
const provisioning = "--enable-hostpath-provisioner=true"

// addStorageClass makes the default class that specs with claims ask for.
func addStorageClass(ctx context.Context, client kubernetes.Interface) error {
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "hostpath",
			Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner: "kubernetes.io/host-path",
	}
	if _, err := client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create storage class: %w", err)
	}
	return nil
}

// volumeDir is where upstream's provisioner makes the volumes of all clusters of this machine.
const volumeDir = "/tmp/hostpath_pv"

// removeVolumes removes the folders of the volumes that are left: nobody will, when the cluster is gone.
func removeVolumes(ctx context.Context, client kubernetes.Interface) error {
	volumes, err := client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list volumes: %w", err)
	}
	var errs []error
	for _, v := range volumes.Items {
		if v.Spec.HostPath != nil && filepath.Dir(v.Spec.HostPath.Path) == volumeDir {
			errs = append(errs, os.RemoveAll(v.Spec.HostPath.Path))
		}
	}
	_ = os.Remove(volumeDir) // stays while another cluster has volumes
	return errors.Join(errs...)
}
