"""The memory toolset: entities and weighted, bi-temporal relations, learnt from conversations.

The modules here keep and find: ``relate`` (with ``plan``, ``resolving``, ``compose``, ``timeline``, ``report``,
``evidence``), ``traverse`` and ``ranking`` (graph_query), ``find`` (graph_search), ``catalogue`` (graph_entities),
``stats``. Each room holds its tools beside what they do:

* ``changing``: boost and weaken, contradictions and how they are decided
* ``fading``: decay; ``removing``: prune and delete; ``undoing``: taking such changes back
* ``merging``: merge and unmerge
* ``past``: what was true, or believed, at an earlier moment
* ``analysis``: what looks at the whole graph: briefing, communities, suggestions, validation, raw Cypher, new vectors
* ``runs``: who leads a run, how far it is, what it reports; ``prompts``: what agents are told to do in one
* ``moving``: export, import, backup and restore
* ``offered``: resources and completion; ``figures``: counts that several rooms show
"""
