{{/*
The faults of config.data, one a line. files/config-members.yaml has the types. cpu-suppression-config may be YAML too,
which is not checked here.
*/}}
{{- define "corewise.configFaults" -}}
{{- $members := .Files.Get "files/config-members.yaml" | fromYaml -}}
{{- range $key, $value := .Values.config.data }}
{{- $text := kindIs "string" $value | ternary $value (toJson $value) }}
{{- $isYAML := and (eq $key "cpu-suppression-config") (regexMatch "^\\s*(cpuSuppression|cpuThrottlingConfig):" $text) }}
{{- /* fromJson puts its error into a member "Error", which the text may have itself. Wrapped, the two differ. */}}
{{- $list := fromJsonArray (printf "[%s]" $text) }}
{{- $member := fromJson (printf "{\"text\": %s}" $text) }}
{{- if $isYAML }}
{{- else if not (trim $text) }}
{{ $key }} is empty: write an object {...}, or leave the key out
{{- else if and (len $list | eq 1) (has (kindOf (first $list)) (list "map" "invalid")) }}
{{- include "corewise.memberFaults" (dict "path" $key "value" (first $list) "type" (index $members $key)) }}
{{- else if and (hasKey $member "text") (not (hasKey $member "Error")) (not (kindIs "map" $member.text)) }}
{{ $key }} must be a JSON object {...}, not {{ include "corewise.shown" $member.text }}
{{- else }}
{{ $key }} is not JSON: {{ (fromJson $text).Error }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The faults of a value and its members, one a line. A null is an absent member. */}}
{{- define "corewise.memberFaults" -}}
{{- $path := .path }}
{{- $type := .type }}
{{- $value := .value }}
{{- $kind := kindOf $value }}
{{- $must := "" }}
{{- $hint := "" }}
{{- if or (eq $kind "invalid") (not $type) }}
{{- else if kindIs "map" $type }}
{{- if ne $kind "map" }}{{ $must = "an object {...}" }}{{ else }}
{{- range $name, $inner := $value }}
{{- $one := dict "path" (printf "%s.%s" $path $name) "value" $inner "type" (hasKey $type $name | ternary (index $type $name) (index $type "*")) }}
{{- include "corewise.memberFaults" $one }}
{{- end }}
{{- end }}
{{- else if kindIs "slice" $type }}
{{- if ne $kind "slice" }}{{ $must = "a list [...]" }}{{ else }}
{{- range $index, $inner := $value }}
{{- include "corewise.memberFaults" (dict "path" (printf "%s[%d]" $path $index) "value" $inner "type" (first $type)) }}
{{- end }}
{{- end }}
{{- else if eq $type "boolean" }}
{{- if ne $kind "bool" }}{{ $must = "true or false, without quotes" }}{{ end }}
{{- else if eq $type "text" }}
{{- if ne $kind "string" }}{{ $must = "text in quotes" }}{{ end }}
{{- else if ne $kind "float64" }}{{ $must = "a number, without quotes" }}
{{- if eq $kind "string" }}{{ $hint = " (--set makes text of it: use --set-json)" }}{{ end }}
{{- else if and (eq $type "ratio") (lt $value 1.0) }}{{ $must = "at least 1.00" }}
{{- else if and (eq $type "share") (or (lt $value 0.0) (gt $value 1.0)) }}{{ $must = "from 0.00 to 1.00" }}
{{- end }}
{{- with $must }}
{{ $path }} must be {{ . }}, not {{ include "corewise.shown" $value }}{{ $hint }}
{{- end }}
{{- end -}}

{{/* A value as a message shows it. */}}
{{- define "corewise.shown" -}}
{{- if kindIs "map" . }}an object{{ else if kindIs "slice" . }}a list{{ else }}{{ toRawJson . | trunc 60 }}{{ end }}
{{- end -}}
