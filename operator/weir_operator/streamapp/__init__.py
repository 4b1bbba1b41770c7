"""The StreamApp: what a user writes, as typed values; source of the CRD and of every error message.

`models` is the resource, built from the sections beside it (`flink`, `objective`, `pools`,
`operators`, `managers`); `rules` are the checks between sections; `loading` reads a manifest and
returns a sentence per mistake; `world` extracts what the model needs; `crd` writes the CRD.
"""
