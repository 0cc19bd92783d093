"""Narrow stores of control data. Their labels begin with ``_``; no tool reaches them."""
