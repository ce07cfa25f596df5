// Prints the facts about Kubernetes' built-in API types that crates/kinds embeds: every struct reachable from a
// registered kind, its JSON fields, their types and tags, and the merge rules of the published OpenAPI document.
// Usage: go run . SWAGGER_JSON ../resources.txt >../types.txt (the module requirements are those of k8s.io/kubernetes itself).
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

type property map[string]any
type definition struct {
	Properties map[string]property `json:"properties"`
	Required   []string            `json:"required"`
	MapType    string              `json:"x-kubernetes-map-type"`
	GVK        []map[string]string `json:"x-kubernetes-group-version-kind"`
}

var definitions map[string]definition
var seen = map[reflect.Type]bool{}
var lines = map[string]string{}

var special = map[string]string{
	"k8s.io/apimachinery/pkg/api/resource.Quantity":                     "quantity",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":                         "time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":                    "microtime",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Duration":                     "duration",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString":                   "intorstring",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":                      "raw",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":                     "fields",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON":     "json",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray":       "json",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool":        "json",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray": "json",
}

func openapiName(t reflect.Type) string {
	parts := strings.Split(t.PkgPath(), "/")
	host := strings.Split(parts[0], ".")
	for i, j := 0, len(host)-1; i < j; i, j = i+1, j-1 {
		host[i], host[j] = host[j], host[i]
	}
	return strings.Join(append(host, parts[1:]...), ".") + "." + t.Name()
}

func expression(t reflect.Type) string {
	full := t.PkgPath() + "." + t.Name()
	if s, ok := special[full]; ok {
		return s
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + expression(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[]" + expression(t.Elem())
	case reflect.Map:
		return "{}" + expression(t.Elem())
	case reflect.Struct:
		walk(t)
		return "@" + openapiName(t)
	}
	if t.PkgPath() != "" {
		return t.Kind().String() + ":" + t.String()
	}
	return t.Kind().String()
}

// Embedded structs are flattened in JSON but are messages of their own in protobuf: `prefix` is the way to them.
func fields(t reflect.Type, def definition, prefix string, out *[]string) {
	for i := 0; i < t.NumField(); i++ {
		f := t.Field(i)
		tag := strings.Split(f.Tag.Get("json"), ",")
		inline := false
		flags := ""
		for _, o := range tag[1:] {
			switch o {
			case "inline":
				inline = true
			case "omitempty":
				flags += " o"
			case "omitzero":
				flags += " z"
			}
		}
		if tag[0] == "" && f.Anonymous {
			inline = true
		}
		if inline {
			ft := f.Type
			if ft.Kind() == reflect.Pointer {
				ft = ft.Elem()
			}
			way := prefix
			if pb := strings.Split(f.Tag.Get("protobuf"), ","); len(pb) > 1 {
				way += pb[1] + "."
			}
			fields(ft, def, way, out)
			continue
		}
		if tag[0] == "-" || tag[0] == "" {
			continue
		}
		if pb := strings.Split(f.Tag.Get("protobuf"), ","); len(pb) > 1 {
			flags += " n" + prefix + pb[1]
		}
		p := def.Properties[tag[0]]
		str := func(key, name string) {
			if v, ok := p[key]; ok {
				flags += " " + name + "=" + fmt.Sprint(v)
			}
		}
		str("x-kubernetes-patch-strategy", "patch")
		str("x-kubernetes-patch-merge-key", "key")
		str("x-kubernetes-list-type", "list")
		str("x-kubernetes-map-type", "map")
		str("format", "format")
		if keys, ok := p["x-kubernetes-list-map-keys"].([]any); ok {
			names := []string{}
			for _, k := range keys {
				names = append(names, k.(string))
			}
			flags += " keys=" + strings.Join(names, ";")
		}
		if v, ok := p["default"]; ok {
			b, _ := json.Marshal(v)
			if string(b) != "{}" {
				flags += " default=" + string(b)
			}
		}
		for _, r := range def.Required {
			if r == tag[0] {
				flags += " r"
			}
		}
		*out = append(*out, " "+tag[0]+" "+expression(f.Type)+flags)
	}
}

func walk(t reflect.Type) {
	if seen[t] {
		return
	}
	seen[t] = true
	name := openapiName(t)
	def := definitions[name]
	head := name
	if def.MapType != "" {
		head += " map=" + def.MapType
	}
	out := []string{head}
	fields(t, def, "", &out)
	lines[name] = strings.Join(out, "\n")
}

func main() {
	raw, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	var doc struct {
		Definitions map[string]definition `json:"definitions"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		panic(err)
	}
	definitions = doc.Definitions
	s := runtime.NewScheme()
	if err := apiextensions.AddToScheme(s); err != nil {
		panic(err)
	}
	if err := apiregistration.AddToScheme(s); err != nil {
		panic(err)
	}
	table, err := os.ReadFile(os.Args[2])
	if err != nil {
		panic(err)
	}
	served := map[string]bool{}
	for _, line := range strings.Split(string(table), "\n") {
		if gv, ok := strings.CutPrefix(line, "group "); ok {
			served[gv] = true
		}
	}
	kinds := []string{}
	for _, sch := range []*runtime.Scheme{scheme.Scheme, s} {
		for gvk, t := range sch.AllKnownTypes() {
			if gvk.Version == runtime.APIVersionInternal || strings.HasSuffix(gvk.Kind, "List") && t.NumField() > 2 && t.Field(2).Name == "Items" {
				continue
			}
			if strings.Contains(t.PkgPath(), "apimachinery/pkg/apis/meta") {
				continue
			}
			if !served[gvk.GroupVersion().String()] {
				continue
			}
			walk(t)
			kinds = append(kinds, fmt.Sprintf("kind %s/%s %s %s", gvk.Group, gvk.Version, gvk.Kind, openapiName(t)))
		}
	}
	for _, v := range []any{metav1.Status{}, metav1.DeleteOptions{}, metav1.LabelSelector{}, metav1.ListMeta{}, metav1.WatchEvent{}} {
		walk(reflect.TypeOf(v))
	}
	sort.Strings(kinds)
	names := []string{}
	for n := range lines {
		names = append(names, n)
	}
	sort.Strings(names)
	seenKind := ""
	for _, k := range kinds {
		if k != seenKind {
			fmt.Println(k)
		}
		seenKind = k
	}
	for _, n := range names {
		fmt.Println(lines[n])
	}
}
