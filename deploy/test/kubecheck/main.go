// kubecheck reads the objects of a rendered chart from its standard input and checks them as the API server would: each
// strictly against the server's own type (a field that is unknown, given twice or of another type is an error), names and
// labels against the server's own rules, objects of KEDA against the schema of its CRD. It also checks what no server checks:
// the references between objects.
//
//	helm template svc deploy/helm/svc -f values.yaml | kubecheck -crd keda.sh_scaledobjects.yaml
package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	sigsyaml "sigs.k8s.io/yaml"
)

func main() {
	var crds paths
	flag.Var(&crds, "crd", "a CustomResourceDefinition (YAML) whose objects are checked against its schema; may be given again")
	flag.Parse()

	objects, faults := read(os.Stdin, crds)
	faults = append(faults, checkReferences(objects)...)
	for _, fault := range faults {
		fmt.Fprintln(os.Stderr, fault)
	}
	fmt.Printf("%d objects, %d faults\n", len(objects), len(faults))
	if len(faults) > 0 || len(objects) == 0 {
		os.Exit(1)
	}
}

type paths []string

func (it *paths) String() string { return fmt.Sprint(*it) }
func (it *paths) Set(path string) error {
	*it = append(*it, path)
	return nil
}

func read(input io.Reader, crds paths) (objects []runtime.Object, faults []error) {
	for _, add := range []func(*runtime.Scheme) error{monitoring.AddToScheme, gateway.Install} {
		if err := add(scheme.Scheme); err != nil {
			return nil, []error{err}
		}
	}
	custom, err := readSchemas(crds)
	if err != nil {
		return nil, []error{err}
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme,
		json.SerializerOptions{Yaml: true, Strict: true})

	documents := yaml.NewYAMLReader(bufio.NewReader(input))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, faults
		}
		if err != nil {
			return objects, append(faults, err)
		}
		var fields map[string]any
		if err := sigsyaml.UnmarshalStrict(document, &fields); err != nil {
			faults = append(faults, fmt.Errorf("not YAML: %w\n%s", err, bytes.TrimSpace(document)))
			continue
		}
		if len(fields) == 0 {
			continue
		}
		plain := &unstructured.Unstructured{Object: fields}
		where := fmt.Sprintf("%s %s", plain.GetKind(), plain.GetName())
		for _, fault := range checkMetadata(plain) {
			faults = append(faults, fmt.Errorf("%s: %w", where, fault))
		}
		if schema, ok := custom[plain.GroupVersionKind()]; ok {
			if err := schema.Validate(fields); err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", where, err))
			}
			objects = append(objects, plain)
			continue
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", where, err))
		}
		if object != nil {
			objects = append(objects, object)
		}
	}
}
