"""From runs, or from the paper's printed cells, to tables, claims, the audit and the report.

examples:
  python -m analysis table 10
  python -m analysis claims --id F8 --explain
  python -m analysis audit --source released
  python -m analysis audit --letter --format html --out letter.html
  python -m analysis compare 610m-mlm40-42k 610m-clm-42k
  python -m analysis best split
  python -m analysis compare my-model '610m-*-42k' --source results/ --add-model my-model
  python -m analysis reproduce --source results/ --out build
"""
