package main

import (
	"fmt"
	"slices"
	"strings"

	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	meta_v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
)

// checkMetadata applies the server's rules for names, labels and annotations.
func checkMetadata(object *unstructured.Unstructured) (faults []error) {
	tell := func(what, value string, said []string) {
		if len(said) > 0 {
			faults = append(faults, fmt.Errorf("%s %q: %s", what, value, strings.Join(said, "; ")))
		}
	}
	// Names of Services are the narrowest, and all of ours fit.
	tell("name", object.GetName(), validation.IsDNS1035Label(object.GetName()))
	for key, value := range object.GetLabels() {
		tell("label", key, validation.IsQualifiedName(key))
		tell("value of the label "+key, value, validation.IsValidLabelValue(value))
	}
	for key := range object.GetAnnotations() {
		tell("annotation", key, validation.IsQualifiedName(strings.ToLower(key)))
	}
	return faults
}

// A pod and its owner.
type pod struct {
	owner  string
	labels map[string]string
	spec   core.PodSpec
}

// rendered holds the objects of a chart by the names used to refer to them.
type rendered struct {
	pods     []pod
	services map[string]*core.Service
	scalable map[string]bool
	configs  map[string]bool
	accounts map[string]bool
	secrets  map[string]map[string]bool
	faults   []error
}

func (it *rendered) tell(where, format string, values ...any) {
	it.faults = append(it.faults, fmt.Errorf("%s: %s", where, fmt.Sprintf(format, values...)))
}

// checkReferences lists broken references. A Secret that the chart does not render is external, such as an existingSecret; one that
// it renders must have the key.
func checkReferences(objects []runtime.Object) []error {
	it := &rendered{
		services: map[string]*core.Service{}, scalable: map[string]bool{}, configs: map[string]bool{},
		accounts: map[string]bool{}, secrets: map[string]map[string]bool{},
	}
	seen := map[string]bool{}
	for _, object := range objects {
		it.collect(object)
		accessor, err := meta.Accessor(object)
		if err != nil {
			it.faults = append(it.faults, err)
			continue
		}
		id := object.GetObjectKind().GroupVersionKind().Kind + " " + accessor.GetName()
		if seen[id] {
			it.tell(id, "is there twice")
		}
		seen[id] = true
	}
	for _, pod := range it.pods {
		it.checkPod(pod)
	}
	for _, object := range objects {
		it.checkObject(object)
	}
	return it.faults
}

func (it *rendered) collect(object runtime.Object) {
	addPod := func(owner string, selector *meta_v1.LabelSelector, template core.PodTemplateSpec) {
		it.pods = append(it.pods, pod{owner, template.Labels, template.Spec})
		if selector == nil {
			return
		}
		if !matches(selector, template.Labels) {
			it.tell(owner, "its selector does not match its own pods")
		}
		for key, value := range template.Labels {
			it.checkLabel(owner, key, value)
		}
	}
	switch object := object.(type) {
	case *apps.Deployment:
		it.scalable[object.Name] = true
		addPod("Deployment "+object.Name, object.Spec.Selector, object.Spec.Template)
	case *apps.StatefulSet:
		// A claim is a volume like any other.
		template := object.Spec.Template
		for _, claim := range object.Spec.VolumeClaimTemplates {
			template.Spec.Volumes = append(template.Spec.Volumes, core.Volume{Name: claim.Name})
		}
		addPod("StatefulSet "+object.Name, object.Spec.Selector, template)
	case *batch.Job:
		addPod("Job "+object.Name, nil, object.Spec.Template)
	case *batch.CronJob:
		addPod("CronJob "+object.Name, nil, object.Spec.JobTemplate.Spec.Template)
	case *core.Pod:
		it.pods = append(it.pods, pod{"Pod " + object.Name, object.Labels, object.Spec})
	case *core.Service:
		it.services[object.Name] = object
	case *core.ConfigMap:
		it.configs[object.Name] = true
	case *core.ServiceAccount:
		it.accounts[object.Name] = true
	case *core.Secret:
		keys := map[string]bool{}
		for key := range object.Data {
			keys[key] = true
		}
		for key := range object.StringData {
			keys[key] = true
		}
		it.secrets[object.Name] = keys
	}
}

func (it *rendered) checkLabel(where, key, value string) {
	if said := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(said) > 0 {
		it.tell(where, "label %s=%q: %s", key, value, strings.Join(said, "; "))
	}
}

func (it *rendered) checkPod(pod pod) {
	spec := pod.spec
	if name := spec.ServiceAccountName; name != "" && name != "default" && len(it.accounts) > 0 && !it.accounts[name] {
		it.tell(pod.owner, "there is no ServiceAccount %s", name)
	}
	volumes := map[string]bool{}
	for _, volume := range spec.Volumes {
		volumes[volume.Name] = true
		if volume.ConfigMap != nil && !it.configs[volume.ConfigMap.Name] {
			it.tell(pod.owner, "there is no ConfigMap %s", volume.ConfigMap.Name)
		}
	}
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		where := pod.owner + ", container " + container.Name
		it.checkContainer(where, container, volumes)
	}
}

func (it *rendered) checkContainer(where string, container core.Container, volumes map[string]bool) {
	for _, mount := range container.VolumeMounts {
		if !volumes[mount.Name] {
			it.tell(where, "there is no volume %s", mount.Name)
		}
	}
	if container.Resources.Requests.Memory().IsZero() || container.Resources.Limits.Memory().IsZero() {
		it.tell(where, "asks for no memory, or has no limit of it")
	}
	if limit, request := container.Resources.Limits.Memory(), container.Resources.Requests.Memory(); limit.Cmp(*request) < 0 {
		it.tell(where, "its limit of memory is below what it asks for")
	}
	for _, probe := range []*core.Probe{container.StartupProbe, container.ReadinessProbe, container.LivenessProbe} {
		if probe != nil && probe.HTTPGet != nil && !hasPort(container, probe.HTTPGet.Port.String()) {
			it.tell(where, "a probe asks at the port %s, which it does not have", probe.HTTPGet.Port.String())
		}
	}
	known := map[string]bool{}
	for _, variable := range container.Env {
		if known[variable.Name] {
			it.tell(where, "has %s twice", variable.Name)
		}
		// The kubelet expands only variables defined before.
		for _, part := range strings.Split(variable.Value, "$(")[1:] {
			if name, _, ok := strings.Cut(part, ")"); ok && !known[name] {
				it.tell(where, "%s uses $(%s), which does not stand before it", variable.Name, name)
			}
		}
		known[variable.Name] = true
		if variable.ValueFrom == nil || variable.ValueFrom.SecretKeyRef == nil {
			continue
		}
		of := variable.ValueFrom.SecretKeyRef
		keys, isOurs := it.secrets[of.Name]
		if isOurs && !keys[of.Key] && (of.Optional == nil || !*of.Optional) {
			it.tell(where, "the Secret %s has no key %s", of.Name, of.Key)
		}
	}
}

func hasPort(container core.Container, port string) bool {
	return slices.ContainsFunc(container.Ports, func(it core.ContainerPort) bool {
		return it.Name == port || fmt.Sprint(it.ContainerPort) == port
	})
}

func (it *rendered) checkObject(object runtime.Object) {
	switch object := object.(type) {
	case *core.Service:
		where := "Service " + object.Name
		pods := it.selected(where, &meta_v1.LabelSelector{MatchLabels: object.Spec.Selector})
		for _, port := range object.Spec.Ports {
			for _, pod := range pods {
				if !slices.ContainsFunc(pod.spec.Containers, func(c core.Container) bool { return hasPort(c, port.TargetPort.String()) }) {
					it.tell(where, "%s has no port %s", pod.owner, port.TargetPort.String())
				}
			}
		}
	case *policy.PodDisruptionBudget:
		it.selected("PodDisruptionBudget "+object.Name, object.Spec.Selector)
	case *networking.NetworkPolicy:
		it.selected("NetworkPolicy "+object.Name, &object.Spec.PodSelector)
	case *monitoring.PodMonitor:
		it.selected("PodMonitor "+object.Name, &object.Spec.Selector)
	case *autoscaling.HorizontalPodAutoscaler:
		it.checkScaled("HorizontalPodAutoscaler "+object.Name, object.Spec.ScaleTargetRef.Name)
	case *unstructured.Unstructured:
		if object.GetKind() == "ScaledObject" {
			name, _, _ := unstructured.NestedString(object.Object, "spec", "scaleTargetRef", "name")
			it.checkScaled("ScaledObject "+object.GetName(), name)
		}
	case *networking.Ingress:
		for _, rule := range object.Spec.Rules {
			for _, path := range rule.HTTP.Paths {
				backend := path.Backend.Service
				it.checkBackend("Ingress "+object.Name, backend.Name, func(port core.ServicePort) bool {
					return port.Name == backend.Port.Name || port.Port == backend.Port.Number
				})
			}
		}
	case *gateway.HTTPRoute:
		for _, rule := range object.Spec.Rules {
			for _, backend := range rule.BackendRefs {
				it.checkBackend("HTTPRoute "+object.Name, string(backend.Name), func(port core.ServicePort) bool {
					return backend.Port != nil && port.Port == int32(*backend.Port)
				})
			}
		}
	}
}

func (it *rendered) checkBackend(where, service string, isPort func(core.ServicePort) bool) {
	found, ok := it.services[service]
	if !ok {
		it.tell(where, "there is no Service %s", service)
	} else if !slices.ContainsFunc(found.Spec.Ports, isPort) {
		it.tell(where, "the Service %s does not have the port", service)
	}
}

func (it *rendered) checkScaled(where, name string) {
	if !it.scalable[name] {
		it.tell(where, "there is no Deployment %s", name)
	}
}

func (it *rendered) selected(where string, selector *meta_v1.LabelSelector) (found []pod) {
	for _, pod := range it.pods {
		if matches(selector, pod.labels) {
			found = append(found, pod)
		}
	}
	if len(found) == 0 {
		it.tell(where, "it selects no pods")
	}
	return found
}

func matches(selector *meta_v1.LabelSelector, of map[string]string) bool {
	found, err := meta_v1.LabelSelectorAsSelector(selector)
	return err == nil && found.Matches(labels.Set(of))
}
