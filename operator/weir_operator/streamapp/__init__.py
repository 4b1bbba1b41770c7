"""The StreamApp: what a user writes, as typed values; the CRD and every refusal come from here.

`models` is the resource, made of the sections beside it (`flink`, `objective`, `pools`,
`operators`, `managers`); `rules` are the checks between sections; `loading` reads a manifest and
answers a sentence per mistake; `world` says what the model needs of it; `crd` writes the CRD.
"""
