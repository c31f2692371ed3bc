"""The experiment harness of an installed RAGtune.

A wheel has ``experiments/`` and ``conf/`` in this folder, and ``ragtune run`` puts the folder on Python's path. So no
package called ``experiments`` or ``conf`` appears in site-packages. In a checkout the folder has only this file: its
harness lies beside ``ragtune/``.
"""
