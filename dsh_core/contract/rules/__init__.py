"""The rules, one module per owner.

A module of this folder defines one `RuleSet` named ``Rules``; the catalogue finds it by itself.
"""
