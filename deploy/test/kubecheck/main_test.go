package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const wellFormed = `apiVersion: v1
kind: Pod
metadata: {name: a, labels: {app: a}}
spec:
  containers:
    - name: a
      image: a
      resources: {requests: {memory: 1Mi}, limits: {memory: 1Mi}}
      ports: [{name: http, containerPort: 80}]
      env: [{name: A, value: "1"}, {name: B, value: $(A)}]
---
apiVersion: v1
kind: Service
metadata: {name: a}
spec: {selector: {app: a}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Secret
metadata: {name: a}
stringData: {KEY: x}
---
apiVersion: keda.sh/v1alpha1
kind: Scaled
metadata: {name: a}
spec: {min: 1}
`

const crd = `spec:
  group: keda.sh
  names: {kind: Scaled}
  versions:
    - name: v1alpha1
      schema:
        openAPIV3Schema:
          type: object
          properties:
            apiVersion: {type: string}
            kind: {type: string}
            metadata: {type: object}
            spec: {type: object, required: [min], properties: {min: {type: integer}}}
`

func check(t *testing.T, documents string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(path, []byte(crd), 0o600); err != nil {
		t.Fatal(err)
	}
	objects, faults := read(strings.NewReader(documents), paths{path})
	told := []string{}
	for _, fault := range append(faults, checkReferences(objects)...) {
		told = append(told, fault.Error())
	}
	return told
}

func TestNothingIsSaidOfWhatIsRight(t *testing.T) {
	if told := check(t, wellFormed); len(told) > 0 {
		t.Error(told)
	}
}

func TestWhatIsWrongIsTold(t *testing.T) {
	secretOf := func(key string) string {
		return `value: "1"}, {name: C, valueFrom: {secretKeyRef: {name: a, key: ` + key + `}}}, {name: D, value: "2"}`
	}
	for name, it := range map[string]struct{ from, to, said string }{
		"a field that is unknown":            {"image: a", "image: a\n      imagee: b", `unknown field "spec.containers[0].imagee"`},
		"a field given twice":                {"image: a", "image: a\n      image: b", "image"},
		"a field of another type":            {"containerPort: 80", "containerPort: http", "containerPort"},
		"a kind that is unknown":             {"kind: Service", "kind: Servise", "Servise"},
		"a name that is none":                {"{name: a, labels: {app: a}}", "{name: A_, labels: {app: a}}", "name"},
		"a label that is none":               {"labels: {app: a}", "labels: {app: a b}", "value of the label app"},
		"a Service of nobody":                {"selector: {app: a}", "selector: {app: b}", "it selects no pods"},
		"a port that is not there":           {"targetPort: http", "targetPort: https", "has no port https"},
		"a key that is not in the Secret":    {`value: "1"}`, secretOf("OTHER"), "the Secret a has no key OTHER"},
		"a variable that comes too late":     {"value: $(A)", "value: $(Z)", "$(Z), which does not stand before it"},
		"a variable given twice":             {"{name: B,", "{name: A,", "has A twice"},
		"no limit of memory":                 {", limits: {memory: 1Mi}", "", "no limit of it"},
		"an object that is there twice":      {"kind: Secret\nmetadata: {name: a}\nstringData: {KEY: x}", "kind: Pod\nmetadata: {name: a}", "is there twice"},
		"a field that the CRD does not have": {"{min: 1}", "{min: 1, max: 2}", "additional properties 'max' not allowed"},
		"a field that the CRD asks for":      {"{min: 1}", "{}", "missing property 'min'"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(wellFormed, it.from, it.to, 1)
			if changed == wellFormed {
				t.Fatal("nothing was changed")
			}
			if told := strings.Join(check(t, changed), "\n"); !strings.Contains(told, it.said) {
				t.Errorf("%q is not in %q", it.said, told)
			}
		})
	}
}
