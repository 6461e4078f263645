# The runs table, then everything it allows; newer cells bring newer tables.
rule analysis:
    input: lambda w: [need for need in job("analysis", w.name).needs]
    output: "done/analysis/{name}.json"
    resources: **resources("analysis")
    shell: STEP + " {output}"
