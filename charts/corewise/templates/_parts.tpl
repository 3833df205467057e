{{/* The image of all programs. */}}
{{- define "corewise.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default ($.Chart.AppVersion | replace "+" "-") }}{{ end }}
{{- end -}}
{{- end -}}

{{/* Where the ConfigMap slo-controller-config is. */}}
{{- define "corewise.configNamespace" -}}
{{ .Values.config.namespace | default .Release.Namespace }}
{{- end -}}

{{/* The ports of manager and scheduler: those of the node have to be free there. */}}
{{- define "corewise.webhookPort" -}}
{{ if .hostNetwork.enabled }}{{ .hostNetwork.webhookPort }}{{ else }}9443{{ end }}
{{- end -}}
{{- define "corewise.metricsPort" -}}
{{ if .hostNetwork.enabled }}{{ .hostNetwork.metricsPort }}{{ else }}8080{{ end }}
{{- end -}}

{{/* What a pod's network and placement are by the values of its program. */}}
{{- define "corewise.placement" -}}
{{- if (.hostNetwork).enabled }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Who may call the webhooks and the extender, in a NetworkPolicy: everyone, unless values name them. */}}
{{- define "corewise.callers" -}}
{{- with .Values.networkPolicy }}
{{- if or .callers .callerPods }}
      from:
        {{- range .callers }}
        - {ipBlock: {cidr: {{ . | quote }}}}
        {{- end }}
        {{- with .callerPods }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The programs' list of namespaces whose pods may be LSE or SYSTEM, where it is not the default. */}}
{{- define "corewise.qosNamespaces" -}}
{{- if ne (toJson .Values.policies.qosClass.namespaces) "[\"kube-system\"]" }}
{{- range .Values.policies.qosClass.namespaces }}
- --restricted-qos-namespace={{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Requests and limits of a program: its own, or those of the size (files/sizes.yaml). */}}
{{- define "corewise.resources" -}}
{{- $sizes := .Files.Get "files/sizes.yaml" | fromYaml -}}
{{- $program := index (index $sizes (.Values.size | default "medium")) .program -}}
{{- $limits := $program.limits -}}
{{- if and (eq .program "agent") (.Values.agent.evaluate).enabled -}}
{{- $limits = $program.evaluating -}}
{{- end -}}
{{- (index .Values .program).resources | default (dict "requests" $program.requests "limits" $limits) | toYaml -}}
{{- end -}}

{{/*
Whether a program gets a PodDisruptionBudget: not with one replica, where it would block every drain. Rendering fails
where the budget would keep all replicas. Kubernetes rounds a percentage of them up.
*/}}
{{- define "corewise.hasBudget" -}}
{{- $values := index .Values .program -}}
{{- $replicas := int $values.replicas -}}
{{- if and $values.enabled $values.podDisruptionBudget.enabled (gt $replicas 1) -}}
{{- $stated := $values.podDisruptionBudget.minAvailable -}}
{{- $kept := 0 -}}
{{- if kindIs "string" $stated -}}
{{- $kept = div (add (mul (trimSuffix "%" $stated | int) $replicas) 99) 100 | int -}}
{{- else -}}
{{- $kept = int $stated -}}
{{- end -}}
{{- if ge $kept $replicas -}}
{{- $name := printf "%s.podDisruptionBudget" .program -}}
{{- $most := sub $replicas 1 | int -}}
{{- fail (printf "%s.minAvailable is %s, which keeps %d of %d replicas, so no node that runs one can be drained: set it to %d or less, or set %s.enabled=false" $name (toString $stated) $kept $replicas $most $name) -}}
{{- end -}}
true
{{- end -}}
{{- end -}}
