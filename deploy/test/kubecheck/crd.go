package main

import (
	"fmt"
	"os"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

type definition struct {
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Kind string `json:"kind"`
		} `json:"names"`
		Versions []struct {
			Name   string `json:"name"`
			Schema struct {
				OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

// readSchemas makes a JSON schema for each version in the given CRDs.
func readSchemas(crds paths) (map[schema.GroupVersionKind]*jsonschema.Schema, error) {
	schemas := map[schema.GroupVersionKind]*jsonschema.Schema{}
	for _, path := range crds {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var crd definition
		if err := yaml.Unmarshal(text, &crd); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, version := range crd.Spec.Versions {
			root := version.Schema.OpenAPIV3Schema
			// Common fields, which CRDs do not describe; checkMetadata checks them.
			properties, ok := root["properties"].(map[string]any)
			if !ok {
				return nil, fmt.Errorf("%s: version %s has no schema", path, version.Name)
			}
			properties["metadata"] = map[string]any{"type": "object"}
			close(root)
			name := fmt.Sprintf("%s/%s/%s", crd.Spec.Group, crd.Spec.Names.Kind, version.Name)
			compiler := jsonschema.NewCompiler()
			if err := compiler.AddResource(name, root); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			compiled, err := compiler.Compile(name)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			kind := schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}
			schemas[kind] = compiled
		}
	}
	return schemas, nil
}

// close turns a CRD's schema into a JSON schema that forbids unknown fields: the server would drop them silently.
func close(node map[string]any) {
	if node["x-kubernetes-int-or-string"] == true {
		delete(node, "anyOf")
		node["type"] = []any{"integer", "string"}
	}
	if node["nullable"] == true {
		if kind, ok := node["type"].(string); ok {
			node["type"] = []any{kind, "null"}
		}
	}
	if properties, ok := node["properties"].(map[string]any); ok {
		if node["x-kubernetes-preserve-unknown-fields"] != true && node["additionalProperties"] == nil {
			node["additionalProperties"] = false
		}
		for _, property := range properties {
			if it, ok := property.(map[string]any); ok {
				close(it)
			}
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if it, ok := node[key].(map[string]any); ok {
			close(it)
		}
	}
}
